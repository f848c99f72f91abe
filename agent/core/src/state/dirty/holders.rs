//! What a pod that may hold an IP unseen concerns: the denials of the Services whose own it may be.

use super::Dirty;
use crate::facts::{Name, Pod, PodName, Service};
use crate::state::ClusterIndex;
use std::collections::BTreeSet;

impl Dirty {
    /// Adds the Services whose denials a possible holder can end, if there is no other such pod.
    pub(super) fn selecting(&mut self, cluster: &ClusterIndex, pod: &Pod) {
        for name in cluster.stale.services_in(&pod.name.0) {
            let Some(service) = cluster.service(name) else {
                continue;
            };
            let ends = if service.selects(pod) {
                !has_other_holder(cluster, service, pod)
            } else {
                pod.workload.is_some() && cluster.proves_nothing(service)
            };
            if ends {
                self.service(name);
            }
        }
        let named = cluster.endpoint_index.of_name(PodName::of(pod));
        let listed = cluster.endpoint_index.of_pod(pod.uid);
        let services: BTreeSet<&Name> = named.chain(listed).map(|(service, _)| service).collect();
        for name in services {
            self.service(name);
        }
    }
}

/// True if the Service has another possible holder than this pod: then the pod neither ends a proof nor makes one.
fn has_other_holder(cluster: &ClusterIndex, service: &Service, pod: &Pod) -> bool {
    let mut holders = cluster.pods.possible_holders_in(&service.name.0);
    holders.any(|holder| holder.pod.uid != pod.uid && service.selects(&holder.pod))
}
