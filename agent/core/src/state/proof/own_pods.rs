//! The Service's own: the pods that a packet to the Service may rightfully reach.

use crate::facts::{Pod, Selector, Service, Text};
use crate::state::index::ClusterIndex;
use crate::state::index::pods::Record;
use epguard_common::Addr;

/// Pods of the Service's namespaces that may hold an IP without showing it: each is compared with
/// the selector for each IP; fewer if that has many labels. Of more, any may hold it. Kubernetes
/// supports 3,000 pods in a namespace.
const MOST_UNSHOWN: usize = 4_096;

/// Pods of one name that have ended: each is looked for. A client that makes a pod again and again
/// can leave thousands of them in slices.
const MOST_NAMESAKES: usize = 8;

/// A Service's own pods, as opposed to all others.
///
/// Its selector picks them, or its slices list them, or name one of their name that has ended: the
/// next pod of a `StatefulSet` may get the labels later. Where the selector proves nothing, the
/// writer of the slices alone knows which pod it means next (it may compare the IP and the ports
/// alone, as Patroni does, and leave the UID of a pod that another one has replaced): every pod of
/// the namespaces of the pods that slices name is the Service's own there. A namespace is the
/// tenant.
#[derive(Debug, Clone, Copy)]
pub struct OwnPods<'a> {
    cluster: &'a ClusterIndex,
    service: &'a Service,
    /// The namespaces whose pods are all its own; none where the selector proves which pods are.
    namespaces: &'a [Text],
}

impl<'a> OwnPods<'a> {
    /// The own pods of a Service.
    pub fn new(cluster: &'a ClusterIndex, service: &'a Service) -> Self {
        Self {
            cluster,
            service,
            namespaces: cluster.namespaces_of_own(service),
        }
    }

    /// True if the pod, if it lives, is the Service's own.
    pub fn contains(&self, pod: &Pod) -> bool {
        self.is_named(pod)
            || self.namespaces.contains(&pod.name.namespace)
            || self.names_namesake(pod)
    }

    /// True if the selector picks the pod, or slices list it.
    pub(crate) fn is_named(&self, pod: &Pod) -> bool {
        let index = &self.cluster.endpoint_index;
        self.service.selects(pod)
            || index
                .places
                .ips(pod.uid)
                .any(|ip| index.lists(&self.service.name, ip, pod.uid))
    }

    /// True if slices of the Service name a pod of this name that has ended, or named it. Of very
    /// many, one may be among the pods of the namespace that they name.
    fn names_namesake(&self, pod: &Pod) -> bool {
        let service = &self.service.name;
        let index = &self.cluster.endpoint_index;
        let mut ended = self.cluster.pods.places.ended(&pod.name);
        let is_named = |uid| {
            index
                .places
                .ips(uid)
                .any(|ip| self.cluster.stale.has_pair(service, ip, uid))
        };
        ended.by_ref().take(MOST_NAMESAKES).any(is_named)
            || ended.next().is_some() && index.namespaces_of(service).contains(&pod.name.namespace)
    }

    /// The pods that slices of the Service name at the IP, or named.
    pub(crate) fn meant_at(self, ip: Addr) -> impl Iterator<Item = &'a Record> {
        let targets = self
            .cluster
            .endpoint_index
            .endpoints_at(&self.service.name, ip);
        let uids = targets.flat_map(|(_, targets)| targets.keys().flatten());
        uids.filter_map(|uid| self.cluster.pods.get(uid))
    }

    /// Those that may hold the IP without showing it, whichever node they are on.
    pub(crate) fn unshown_holders(self, ip: Addr) -> impl Iterator<Item = &'a Record> {
        let pods = &self.cluster.pods;
        let holders = self
            .of_namespaces()
            .flat_map(move |namespace| pods.unshown_holders_in(namespace, ip));
        holders.filter(move |holder| self.contains(&holder.pod))
    }

    /// How much work it is to look for them, in comparisons of a pod with few labels; none if that
    /// is too much.
    pub(crate) fn count_unshown(self, ip: Addr) -> Option<usize> {
        let pods = &self.cluster.pods;
        let count: usize = self
            .of_namespaces()
            .map(|namespace| pods.count_unshown_in(namespace, ip))
            .sum();
        let work = count * self.service.selector.as_ref().map_or(1, Selector::work);
        (work <= MOST_UNSHOWN).then_some(work)
    }

    /// The namespaces of pods that may be its own without being listed.
    fn of_namespaces(self) -> impl Iterator<Item = &'a Text> {
        let own = &self.service.name.namespace;
        let others = self
            .namespaces
            .iter()
            .filter(move |namespace| *namespace != own);
        [own].into_iter().chain(others)
    }
}
