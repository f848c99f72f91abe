//! The pods that a Service sends packets to at an IP.

use crate::facts::{Name, Pod, PodName, Service};
use crate::state::index::ClusterIndex;
use epguard_common::Addr;
use std::collections::BTreeSet;

/// The pods of a Service at an IP, as opposed to all others.
///
/// A Service with a selector sends to the pods that it selects. A Service without one sends to the pods that its slices
/// name. Writers of such slices re-use a targetRef when neither IP nor ports have changed (Patroni does), so that the slice
/// shows the UID of a pod that a new pod of the same namespace and name has replaced.
#[derive(Debug)]
pub struct Backends<'a> {
    service: &'a Service,
    /// Names of the pods that the slices list; empty for a Service with a selector.
    names: BTreeSet<PodName>,
}

impl<'a> Backends<'a> {
    /// The pods of a Service at an IP.
    #[must_use]
    pub fn new(cluster: &ClusterIndex, name: &Name, service: &'a Service, ip: Addr) -> Self {
        let names = match service.selector {
            Some(_) => BTreeSet::new(),
            None => cluster.endpoint_index.names_at(name, ip),
        };
        Self { service, names }
    }

    /// True if the Service selects the pod, or if it has no selector and lists a pod of this namespace and name.
    #[must_use]
    pub fn contains(&self, pod: &Pod) -> bool {
        self.service.selects(pod) || (!self.names.is_empty() && self.names.contains(&PodName::of(pod)))
    }
}
