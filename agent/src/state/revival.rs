//! A dead pod that the API shows alive.
//!
//! A death is for good, so the API server went back in time: etcd was restored from a backup. Its resourceVersion need not
//! show that, because restore tools raise it (`etcdutl snapshot restore --bump-revision --mark-compacted`).

use super::dirty::Dirty;
use super::synced::Synced;
use super::{Breaker, State, Tables, inherit};
use crate::facts::{Change, Fact, Name, Pod, Standing};
use std::time::Duration;

impl State {
    /// Forgets everything that the API has shown, deaths included: it went back in time, and a restored pod may run
    /// again under its old UID. Nothing is denied until all is listed anew.
    pub fn start_over(&mut self, now: Duration) {
        self.world.start_over();
        self.vacancies.start_over();
        self.breaker = Breaker::default();
        self.synced = Synced::default();
        self.inherited = None;
        let dirty = Dirty {
            everything: true,
            ips: self.owners.keys().copied().collect(),
            pods: self.draining.keys().copied().collect(),
            ..Dirty::default()
        };
        self.settle(now, dirty, None);
    }

    /// The dead pod that the API has shown alive since the last call, if any. The state has started over and needs a list of
    /// every watch.
    pub fn take_revived(&mut self) -> Option<Name> {
        self.revived.take()
    }

    pub(super) fn start_over_if_revived(&mut self, now: Duration, fact: &Fact) {
        let Fact::Pod(_, change) = fact else { return };
        let shown = match change {
            Change::Reset(pods) => pods.as_slice(),
            Change::Applied(pod) | Change::Deleted(pod) => std::slice::from_ref(pod),
        };
        let revived = shown.iter().find(|pod| self.is_revived(pod));
        if let Some(name) = revived.map(|pod| pod.name.clone()) {
            self.revived = Some(name);
            self.start_over(now);
        }
    }

    /// Restores what an earlier process proved; nothing of it if the API shows a pod alive that was dead then.
    pub(super) fn restore(&mut self, tables: &Tables, now: Duration) {
        if inherit::deaths(tables).any(|uid| self.world.pods.is_live(uid)) {
            tracing::warn!(
                "the API shows a pod alive that the maps of an earlier agent show dead: the API server went back in time. \
                 Nothing is restored from the maps"
            );
            return;
        }
        inherit::inherit(tables, &mut self.world, &mut self.slots, &mut self.vacancies, now);
        self.breaker.inherit(inherit::carried_out(tables));
    }

    fn is_revived(&self, pod: &Pod) -> bool {
        pod.standing == Standing::Live && self.world.pods.is_dead(pod.uid)
    }
}
