//! The pods that the endpoints of a Service name, and the endpoints that name a pod.

use super::EndpointIndex;
use crate::facts::{Name, PodName};
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;

impl EndpointIndex {
    /// The pods that a Service lists at an IP, or listed there.
    #[must_use]
    pub fn named_at(&self, service: &Name, ip: Addr) -> BTreeSet<Uid> {
        let targets = self.at(service, ip).flat_map(|(_, targets)| targets.keys());
        targets.flatten().collect()
    }

    /// Namespaces and names that slices give to a pod.
    pub fn names_of(&self, uid: Uid) -> impl Iterator<Item = PodName> {
        self.places.names(uid)
    }

    /// Where pods of a namespace and name are, or were, listed.
    pub fn of_name(&self, name: PodName) -> impl Iterator<Item = (&Name, Addr)> {
        self.places.uids(name).flat_map(|uid| self.of_pod(uid))
    }
}
