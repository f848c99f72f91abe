//! The Service's own: the pods at an IP that a packet to the Service may rightfully reach.

use crate::facts::{Name, Pod, PodName, Service};
use crate::state::index::ClusterIndex;
use crate::state::index::pods::Record;
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;

/// A Service's own pods at an IP, as opposed to all others.
///
/// Its selector picks them, its slices list them, or they have the namespace and name that a slice gives for the IP: writers of
/// slices re-use a targetRef when neither IP nor ports have changed (Patroni does), so that the slice shows the UID of a pod that a
/// new pod of the same name has replaced. Where the selector proves nothing, the slices' writer alone knows which pod it means next:
/// one of the meant pod's workload may be.
#[derive(Debug)]
pub struct Own<'a> {
    cluster: &'a ClusterIndex,
    name: &'a Name,
    service: &'a Service,
    /// Namespace and name of the pods that slices list at the IP, or listed.
    names: BTreeSet<PodName>,
    /// These pods.
    meant: Vec<&'a Record>,
}

impl<'a> Own<'a> {
    /// The Service's own at an IP.
    pub fn at(cluster: &'a ClusterIndex, name: &'a Name, service: &'a Service, ip: Addr) -> Self {
        let index = &cluster.endpoint_index;
        let targets = index.at(name, ip).flat_map(|(_, targets)| targets.keys());
        let uids: BTreeSet<Uid> = targets.flatten().collect();
        Self {
            cluster,
            name,
            service,
            names: uids.iter().flat_map(|uid| index.places.names(*uid)).collect(),
            meant: uids.into_iter().filter_map(|uid| cluster.pods.get(uid)).collect(),
        }
    }

    /// True if slices give more names to a pod that they list at the IP than are kept: any pod may be meant.
    pub(crate) fn is_any(&self) -> bool {
        self.names.contains(&PodName::ANY)
    }

    /// True if the pod, if it lives, is the Service's own.
    pub fn contains(&self, pod: &Pod) -> bool {
        let index = &self.cluster.endpoint_index;
        self.service.selects(pod)
            || self.is_of_meant_namespace(pod) && self.names.contains(&PodName::of_pod(pod))
            || index.places.ips(pod.uid).any(|ip| index.lists(self.name, ip, pod.uid))
            || self.stands_in(pod) && self.cluster.proves_nothing(self.service)
    }

    /// A possible holder among them: it may hold the IP without showing it, whichever node it is on.
    pub(crate) fn possible_holder(&self) -> Option<&'a Record> {
        let pods = &self.cluster.pods;
        let is_own = |holder: &&Record| self.contains(&holder.pod);
        // The pods that slices list may be of any namespace.
        let is_elsewhere = self.meant.iter().any(|meant| meant.pod.name.0 != self.name.0);
        if is_elsewhere || self.cluster.proves_nothing(self.service) {
            pods.possible_holders().find(is_own)
        } else {
            pods.possible_holders_in(&self.name.0).find(is_own)
        }
    }

    /// True if slices of the pod's namespace may name it: what those of others give as the name of a meant pod proves nothing.
    fn is_of_meant_namespace(&self, pod: &Pod) -> bool {
        let mut meant = self.meant.iter().map(|meant| &meant.pod.name.0);
        pod.name.0 == self.name.0 || meant.any(|namespace| pod.name.0 == *namespace)
    }

    /// True if the pod is of a meant pod's workload. Of a pod that only an earlier process saw the workload is not known.
    fn stands_in(&self, pod: &Pod) -> bool {
        let mut meant = self.meant.iter().map(|meant| &meant.pod);
        pod.workload.is_some()
            && pod.name.0 == self.name.0
            && meant.any(|meant| meant.name.0.is_empty() || meant.workload == pod.workload)
    }
}
