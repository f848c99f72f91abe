//! Keeps the index of ended pods.

use super::ClusterIndex;
use super::stale_index::{Ended, Place};
use crate::facts::Name;
use epguard_common::{Addr, Uid, UidState};

impl ClusterIndex {
    /// Updates the index of ended pods, after a change of the pod, of the endpoints that name it, or of its node's ranges.
    pub(in crate::state) fn index_stale(&mut self, uid: Uid) {
        let ended = self
            .pods
            .get(uid)
            .filter(|record| record.uid_state != UidState::Live);
        let ended = ended.map(|record| {
            let node = record.pod.node.clone();
            let listed = self.endpoint_index.of_pod(uid);
            let places = listed.map(|(service, ip)| Place {
                service: service.clone(),
                ip,
                anywhere: !self.is_exclusive(ip, node.as_deref()),
            });
            Ended {
                places: places.collect(),
                node,
            }
        });
        self.stale
            .set(uid, ended.filter(|ended| !ended.places.is_empty()));
    }

    /// The same, after a change of the endpoints of one Service at one IP: many Services may list the pod there.
    pub(in crate::state) fn index_stale_at(&mut self, uid: Uid, service: &Name, ip: Addr) {
        let record = self.pods.get(uid);
        let Some(record) = record.filter(|record| record.uid_state != UidState::Live) else {
            return;
        };
        let node = record.pod.node.clone();
        let place = Place {
            service: service.clone(),
            ip,
            anywhere: !self.is_exclusive(ip, node.as_deref()),
        };
        let is_listed = self.endpoint_index.names(service, ip, uid);
        self.stale.set_place(uid, node, place, is_listed);
    }

    /// The same for all ended pods of a node.
    pub(in crate::state) fn index_stale_of(&mut self, node: &str) {
        for uid in self.stale.pods_of(node) {
            self.index_stale(uid);
        }
    }

    /// The same for all ended pods, after a change of how nodes hand out IPs.
    pub(in crate::state) fn index_all_stale(&mut self) {
        for uid in self.stale.pods() {
            self.index_stale(uid);
        }
    }
}
