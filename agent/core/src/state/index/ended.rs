//! Keeps the index of ended pods.

use super::ClusterIndex;
use super::stale_index::{Ended, Place};
use crate::facts::Name;
use epguard_common::{Addr, Uid, UidState};

impl ClusterIndex {
    /// Updates the index of ended pods, after a change of the pod, or of the endpoints that name it.
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
        };
        let is_listed = self.endpoint_index.names(service, ip, uid);
        self.stale.set_place(uid, node, place, is_listed);
    }
}
