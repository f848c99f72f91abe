//! Pods that have ended, and where Services list them.

use super::ClusterIndex;
use crate::facts::{ObjectName, Text};
use epguard_common::{Addr, Uid, UidState};
use std::collections::BTreeSet;

impl ClusterIndex {
    /// The pairs that name an ended pod of one of the nodes.
    pub(crate) fn stale_of_nodes(
        &self,
        nodes: &BTreeSet<Text>,
    ) -> impl Iterator<Item = (&ObjectName, Addr)> {
        let pairs = self.stale.pairs().filter(|(_, _, uid)| {
            let record = self.pods.get(*uid);
            let node = record.and_then(|record| record.pod.node.as_ref());
            node.is_some_and(|node| nodes.contains(node))
        });
        pairs.map(|(service, ip, _)| (service, ip))
    }

    /// Updates the index, after a pod ended, or came back.
    pub(super) fn index_stale(&mut self, uid: Uid) {
        let places = self
            .endpoint_index
            .of_pod(uid)
            .map(|(service, ip)| (service.clone(), ip));
        let is_stale = self.has_ended(uid);
        for (service, ip) in places.collect::<Vec<_>>() {
            self.stale.set(uid, service, ip, is_stale);
        }
    }

    /// The same, after a change of the endpoints of one Service at one IP: many Services may list
    /// the pod there. True if they name it only now that it has ended.
    pub(super) fn index_stale_at(&mut self, uid: Uid, service: &ObjectName, ip: Addr) -> bool {
        let is_stale = self.has_ended(uid) && self.endpoint_index.names(service, ip, uid);
        self.stale.set(uid, service.clone(), ip, is_stale)
    }

    /// True if the pod is retired or dead.
    pub(crate) fn has_ended(&self, uid: Uid) -> bool {
        self.pods
            .get(uid)
            .is_some_and(|record| record.uid_state != UidState::Live)
    }
}
