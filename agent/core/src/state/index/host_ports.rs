//! Host ports of this node's pods: a VIP that is one of them does not show a Service.

use super::ClusterIndex;
use super::pods::Record;
use crate::facts::{HostPort, Pod};
use epguard_common::{Uid, UidState};
use std::time::Duration;

impl ClusterIndex {
    /// Notes the host ports of a pod of this node. Returns those that came or went.
    pub(super) fn note_host_ports(&mut self, before: Option<&Record>, uid: Uid) -> Vec<HostPort> {
        let old = before
            .map_or(&[][..], |record| self.host_ports_of(record))
            .to_vec();
        let new = self
            .pods
            .get(uid)
            .map_or(&[][..], |record| self.host_ports_of(record))
            .to_vec();
        if old == new {
            return Vec::new();
        }
        for port in &old {
            self.vips.remove_host_port(*port);
        }
        for port in &new {
            self.vips.add_host_port(*port);
        }
        [old, new].concat()
    }

    /// Drops what no rule reads of a pod: the host ports of another node are translated there. A
    /// pod can have 256.
    pub(crate) fn drop_unread(&self, pod: &mut Pod) {
        if !self.is_own(pod) {
            pod.host_ports = Box::default();
        }
    }

    /// Forgets a pod that the API no longer shows. Unless it is dead it may still run, so that its
    /// host ports count for a while.
    pub(crate) fn forget_pod(&mut self, now: Duration, uid: Uid) {
        if let Some(record) = self.pods.get(uid) {
            let namespace = record.pod.name.namespace.clone();
            for port in self.host_ports_of(record).to_vec() {
                self.vips.give_up_host_port(now, &namespace, port);
            }
        }
        self.pods.forget(uid);
    }

    /// The CNI removes the rules of a pod's host ports before the pod is dead, but not when its
    /// object is removed by force.
    fn host_ports_of<'a>(&self, record: &'a Record) -> &'a [HostPort] {
        if record.uid_state != UidState::Dead && self.is_own(&record.pod) {
            &record.pod.host_ports
        } else {
            &[]
        }
    }
}
