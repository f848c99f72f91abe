//! The pods that the endpoints of a Service name, and the endpoints that name a pod.

use super::EndpointIndex;
use crate::facts::{Name, PodName};
use epguard_common::Addr;
use std::collections::BTreeSet;

impl EndpointIndex {
    /// Namespace and name of the pods that a Service lists at an IP, or listed there.
    #[must_use]
    pub fn names_at(&self, service: &Name, ip: Addr) -> BTreeSet<PodName> {
        let targets = self
            .at(service, ip)
            .flat_map(|(_, targets)| targets.keys().flatten());
        targets.flat_map(|uid| self.places.names(uid)).collect()
    }

    /// Where pods of a namespace and name are, or were, listed.
    pub fn of_name(&self, name: PodName) -> impl Iterator<Item = (&Name, Addr)> {
        self.places.uids(name).flat_map(|uid| self.of_pod(uid))
    }
}
