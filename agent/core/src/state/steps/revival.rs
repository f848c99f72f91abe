//! A dead pod that the API shows alive.
//!
//! A death is permanent, so the API server went back in time: etcd was restored from a backup. Its resourceVersion need
//! not show that, because restore tools raise it (`etcdutl snapshot restore --bump-revision --mark-compacted`).
//!
//! A client that may write `pods/status` can forge the same. One namespace makes the agent list everything anew at most
//! once in [`PAUSE`]; until then its revived pods count as opted out. Deaths of other pods hold, once the new lists
//! leave these pods out. This does not cover a pod that the restored API server showed and that was force-deleted
//! before the agent listed: it may run on unseen.

use super::synced::Synced;
use crate::facts::{Change, Fact, Name, Text};
use crate::state::State;
use crate::state::confirmation::Breaker;
use crate::state::dirty::Dirty;
use crate::state::index::endpoints::Endpoint;
use crate::state::index::pods::Record;
use crate::state::tables::{Tables, restore};
use epguard_common::{Mode, Uid, UidState};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a namespace cannot make the agent start over again.
pub const PAUSE: Duration = Duration::from_mins(10);

/// The pod that made the agent start over, and when each namespace did so last.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Revivals {
    untaken: Option<Name>,
    last: BTreeMap<Text, Duration>,
    /// Deaths that were proven before and wait for the new lists.
    deaths: BTreeMap<Uid, Death>,
}

/// A dead pod, and where Services list it or did recently.
#[derive(Debug, Clone)]
struct Death {
    record: Record,
    listed: Vec<(Name, Endpoint)>,
}

impl State {
    /// Drops everything that the API has shown, deaths included: it went back in time, and a restored pod may run again
    /// under its old UID. Nothing is denied until all is listed anew.
    pub fn start_over(&mut self, now: Duration) {
        self.keep_spread();
        self.cluster.start_over(now);
        self.orphan_ips.start_over();
        self.breaker = Breaker::default();
        self.synced = Synced::default();
        self.restored = None;
        self.task = None;
        self.revivals.deaths.clear();
        let mut dirty = Dirty {
            orphan_ips: true,
            ips: self.owners.all().keys().copied().collect(),
            pods: self.draining.keys().copied().collect(),
            ..Dirty::default()
        };
        dirty.pairs(self.denials.keys().map(|(service, endpoint)| (service, endpoint.ip)));
        self.apply_consequences(now, dirty);
    }

    /// The dead pod that the API has shown alive since the last call, if any. The state has started over and needs a list of
    /// every watch.
    pub fn take_revived(&mut self) -> Option<Name> {
        self.revivals.untaken.take()
    }

    /// Starts over if the fact shows a dead pod alive. If its namespace caused that within `PAUSE`, bounds the pod to
    /// `off` instead: packets that are meant for it pass.
    pub(in crate::state) fn start_over_if_revived(&mut self, now: Duration, fact: &mut Fact) {
        let shown = match fact {
            Fact::Pod(Change::Reset(pods)) => pods.as_mut_slice(),
            Fact::Pod(Change::Applied(pod) | Change::Deleted(pod)) => std::slice::from_mut(pod),
            Fact::PodsOf(part) => part.objects.as_mut_slice(),
            _ => return,
        };
        let last = &mut self.revivals.last;
        last.retain(|_, at| now.saturating_sub(*at) < PAUSE);
        let mut cause = None;
        for pod in &mut *shown {
            if pod.uid_state != UidState::Live || !self.cluster.pods.is_dead(pod.uid) {
                continue;
            }
            if last.contains_key(&pod.name.0) {
                self.cluster.pods.take_back(pod.uid);
                pod.bound = Mode::Off;
            } else {
                cause = Some(pod.name.clone());
            }
        }
        if let Some(name) = cause {
            last.insert(name.0.clone(), now);
            self.revivals.untaken = Some(name);
            let (deaths, order) = (self.deaths(), self.cluster.pods.order);
            self.start_over(now);
            self.cluster.pods.order = order;
            self.revivals.deaths = deaths;
        }
        if !self.revivals.deaths.is_empty() {
            for pod in shown {
                self.revivals.deaths.remove(&pod.uid);
            }
        }
    }

    /// The deaths that lists of all pods can confirm.
    fn deaths(&mut self) -> BTreeMap<Uid, Death> {
        let mut deaths = std::mem::take(&mut self.revivals.deaths);
        let endpoint_index = &self.cluster.endpoint_index;
        for record in self.cluster.pods.iter() {
            let uid = record.pod.uid;
            if self.cluster.pods.is_dead(uid) {
                let listed = endpoint_index.of_pod(uid).flat_map(|(service, ip)| {
                    let endpoints = endpoint_index.at(service, ip);
                    let named = endpoints.filter(|(_, targets)| targets.contains(uid));
                    named.map(|(endpoint, _)| (service.clone(), *endpoint))
                });
                let death = Death { listed: listed.collect(), record: record.clone() };
                deaths.insert(uid, death);
            }
        }
        deaths
    }

    /// Restores the deaths of pods that were not shown again, once everything has been listed anew. Returns these pods.
    pub(in crate::state) fn restore_deaths(&mut self, now: Duration) -> Vec<Uid> {
        let deaths = std::mem::take(&mut self.revivals.deaths);
        let restored = deaths.into_iter().map(|(uid, Death { record, listed })| {
            self.cluster.pods.keep_dead(record);
            for (service, endpoint) in listed {
                self.cluster.endpoint_index.record(now, &service, endpoint, uid);
            }
            uid
        });
        restored.collect()
    }

    /// Restores what an earlier process proved of pods that the API shows no more. Returns these pods.
    pub(in crate::state) fn apply_restored(&mut self, tables: &Tables, now: Duration) -> Vec<Uid> {
        restore::restore(tables, &mut self.cluster, &mut self.layout.numbers, &mut self.orphan_ips, now);
        self.breaker.restore(restore::carried_out(tables));
        let denied = tables.denied.values().map(|denial| denial.dead_uid);
        let terminated = tables.terminated.values().map(|orphan_ip| orphan_ip.dead);
        denied.chain(terminated).collect()
    }
}
