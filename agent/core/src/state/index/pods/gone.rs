//! Pods that the API no longer shows, and those that are about to go.

use super::claims::Claim;
use super::{PodIndex, Record};
use crate::facts::{Pod, Text};
use epguard_common::{Addr, Mode, Uid, UidState};
use std::time::Duration;

impl PodIndex {
    /// Pods that are terminating, or have ended.
    pub fn leaving(&self) -> impl Iterator<Item = &Record> {
        self.records_of(self.leaving.iter())
    }

    /// Restores a pod that an earlier process saw dead at an IP. Its status may have been rewritten since. False if the API shows
    /// it alive, which voids that, or dead. `bound` is the mode that was in force; for a pod that is gone, annotations are unknown now.
    pub fn restore_dead(
        &mut self,
        (uid, bound): (Uid, Mode),
        ip: Addr,
        node: Option<Text>,
        now: Duration,
    ) -> bool {
        let pod = || Pod { uid, node, bound, ..Pod::default() };
        let record =
            self.records.entry(uid).or_insert_with(|| Box::new(Record { pod: pod(), ..Record::default() }));
        let is_new = !record.present || record.uid_state == UidState::Retired;
        if is_new {
            record.uid_state = UidState::Dead;
            record.pod.bound = record.pod.bound.lower(bound);
            let claim = Claim { published: bound == Mode::Enforce, order: self.order, since: now.into() };
            record.claims.first(ip, claim);
        }
        record.unconfirmed &= record.uid_state != UidState::Dead;
        self.note_leaving(uid);
        is_new
    }

    /// Puts back a dead pod that the API no longer shows.
    pub(in crate::state) fn keep_dead(&mut self, record: Record) {
        let record = Record { present: false, possible_holder_since: None, ..record };
        let uid = record.pod.uid;
        self.records.entry(uid).or_insert_with(|| record.into());
        self.note_leaving(uid);
    }

    /// Takes a death back: the pod may hold its IP again, or any other one.
    pub(in crate::state) fn take_back(&mut self, uid: Uid) {
        self.change(uid, |record| {
            record.uid_state = UidState::Live;
            record.unconfirmed = false;
        });
    }

    /// Drops a pod that the API no longer shows and that nothing refers to.
    pub fn forget(&mut self, uid: Uid) {
        if self.records.get(&uid).is_some_and(|record| !record.present) {
            self.records.remove(&uid);
            self.leaving.remove(&uid);
        }
    }

    /// To be called after each change of a record.
    pub(in crate::state) fn note_leaving(&mut self, uid: Uid) {
        let is_leaving = |record: &Record| {
            let states = [record.uid_state, record.pod.uid_state];
            record.pod.deleting || states != [UidState::Live; 2]
        };
        if self.get(uid).is_some_and(is_leaving) {
            self.leaving.insert(uid);
        } else {
            self.leaving.remove(&uid);
        }
    }
}
