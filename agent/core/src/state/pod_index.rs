//! Index of all pods with their states, and of the IPs that they claim.

use super::record::{Claim, Record, settled_in};
use crate::facts::{Change, Part, Pod};
use epguard_common::{Addr, Mode, Uid, UidState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// All pods.
#[derive(Debug, Clone, Default)]
pub struct PodIndex {
    pub(super) records: HashMap<Uid, Record>,
    claimants: HashMap<Addr, BTreeSet<Uid>>,
    possible_holders: BTreeSet<Uid>,
    pub(super) order: u64,
}

/// The UIDs that a change touched, with their records before it.
pub type Touched = Vec<(Uid, Option<Record>)>;

impl PodIndex {
    /// The record of a UID.
    #[must_use]
    pub fn get(&self, uid: Uid) -> Option<&Record> {
        self.records.get(&uid)
    }

    /// True if the pod is proven dead, by more than one list.
    #[must_use]
    pub fn is_dead(&self, uid: Uid) -> bool {
        self.get(uid)
            .is_some_and(|record| record.uid_state == UidState::Dead && !record.unconfirmed)
    }

    /// All records.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Pods that the API no longer shows.
    pub fn absent(&self) -> impl Iterator<Item = Uid> {
        self.records
            .iter()
            .filter(|(_, record)| !record.present)
            .map(|(uid, _)| *uid)
    }

    /// Pods, dead ones included, that the API shows and that show the IP on any network.
    pub fn claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        self.claimants
            .get(&ip)
            .into_iter()
            .flatten()
            .filter_map(|uid| self.records.get(uid))
    }

    /// Possible holders: pods that may hold an IP that the API does not show.
    pub fn possible_holders(&self) -> impl Iterator<Item = &Record> {
        self.possible_holders
            .iter()
            .filter_map(|uid| self.records.get(uid))
    }

    /// Applies a change from the watch.
    pub fn apply(&mut self, now: Duration, change: Change<Pod>) -> Touched {
        match change {
            Change::Reset(pods) => self.reset(now, pods),
            Change::Applied(pod) => {
                self.order += 1;
                vec![self.upsert(now, pod, false)]
            }
            Change::Deleted(pod) => {
                self.order += 1;
                let uid = pod.uid;
                let deleting = pod.deleting;
                let before = self.upsert(now, pod, false);
                self.remove(uid, deleting);
                vec![before]
            }
        }
    }

    /// Restores a pod that an earlier process saw dead at an IP. False if the API shows the pod: then its object
    /// decides. `bound` is the mode that was in force; the annotations of the pod and its Namespace are unknown now.
    pub fn restore_dead(
        &mut self,
        (uid, bound): (Uid, Mode),
        ip: Addr,
        node: Option<String>,
        now: Duration,
    ) -> bool {
        let claim = Claim {
            published: true,
            order: self.order,
            since: now,
        };
        let record = self.records.entry(uid).or_insert_with(|| Record {
            pod: Pod {
                uid,
                node,
                bound,
                uid_state: UidState::Dead,
                ..Pod::default()
            },
            uid_state: UidState::Dead,
            present: false,
            claims: BTreeMap::new(),
            unconfirmed: false,
            died: Duration::ZERO,
            settled_in: None,
            possible_holder_since: None,
        });
        record.unconfirmed &= record.uid_state != UidState::Dead;
        if !record.present {
            record.uid_state = UidState::Dead;
            record.claims.entry(ip).or_insert(claim);
        }
        !record.present
    }

    /// Drops a pod that the API no longer shows and that nothing refers to.
    pub fn forget(&mut self, uid: Uid) {
        if self.records.get(&uid).is_some_and(|record| !record.present) {
            self.records.remove(&uid);
        }
    }

    /// Applies a narrow list beside the watch. It shows no order of claims either, but only a claim that the watch lacked
    /// makes the known order doubtful: true if there was one.
    pub fn apply_part(&mut self, now: Duration, part: Part<Pod>) -> (Touched, bool) {
        let Part {
            selection,
            objects,
            later,
        } = part;
        let touched = self.list(now, objects, |pod| {
            selection.has_pod(pod) && !later.contains(&pod.name)
        });
        let claims = |record: &Record| record.claims.len();
        let is_new =
            |(uid, before): &(Uid, Option<Record>)| self.get(*uid).map(claims) != before.as_ref().map(claims);
        let is_doubtful = touched.iter().any(is_new);
        if is_doubtful {
            self.level_claims();
        }
        (touched, is_doubtful)
    }

    /// Applies a list of everything.
    fn reset(&mut self, now: Duration, pods: Vec<Pod>) -> Touched {
        let touched = self.list(now, pods, |_| true);
        self.level_claims();
        touched
    }

    /// Applies a list of all pods that `is_asked` is true for. An absent one vanished unseen, which proves nothing.
    fn list(&mut self, now: Duration, pods: Vec<Pod>, is_asked: impl Fn(&Pod) -> bool) -> Touched {
        self.order += 1;
        let listed: BTreeSet<Uid> = pods.iter().map(|pod| pod.uid).collect();
        let gone: Vec<Uid> = self
            .records
            .iter()
            .filter(|(uid, record)| record.present && is_asked(&record.pod) && !listed.contains(uid))
            .map(|(uid, _)| *uid)
            .collect();
        let mut touched: Touched = pods.into_iter().map(|pod| self.upsert(now, pod, true)).collect();
        for uid in gone {
            touched.push((uid, self.records.get(&uid).cloned()));
            self.change(uid, |record| {
                record.present = false;
                record.uid_state = if record.unconfirmed {
                    UidState::Live
                } else {
                    proven_for_good(record.uid_state)
                };
            });
        }
        touched
    }

    /// Makes no claim newer than another: a list does not show which came first.
    fn level_claims(&mut self) {
        let records = self.records.values_mut();
        for claim in records.flat_map(|record| record.claims.values_mut()) {
            claim.order = self.order;
        }
    }

    fn upsert(&mut self, now: Duration, pod: Pod, from_list: bool) -> (Uid, Option<Record>) {
        let uid = pod.uid;
        let before = self.records.get(&uid).cloned();
        let order = self.order;
        let settled_in = settled_in(before.as_ref(), &pod, from_list);
        let fresh = before.is_none().then(|| Record {
            pod: pod.clone(),
            uid_state: UidState::Live,
            present: false,
            claims: BTreeMap::new(),
            unconfirmed: false,
            died: Duration::ZERO,
            settled_in: None,
            possible_holder_since: None,
        });
        if let Some(fresh) = fresh {
            self.records.insert(uid, fresh);
        }
        self.change(uid, |record| {
            let known = record.uid_state;
            record.uid_state = if known == UidState::Dead && !record.unconfirmed {
                UidState::Dead
            } else {
                proven_by(&pod)
            };
            record.unconfirmed = from_list && record.uid_state > known;
            if record.uid_state == UidState::Dead && known != UidState::Dead {
                record.died = if from_list { Duration::ZERO } else { now };
            }
            record.present = true;
            for ip in pod.addresses().filter(|_| !pod.host_network) {
                let published = pod.ips.contains(&ip);
                let claim = Claim {
                    published,
                    order,
                    since: now,
                };
                let known = record.claims.entry(ip).or_insert(claim);
                if published && !known.published {
                    *known = claim;
                }
            }
            record.pod = pod;
            record.settled_in = settled_in;
            record.possible_holder_since = record
                .is_possible_holder()
                .then(|| record.possible_holder_since.unwrap_or(now));
        });
        (uid, before)
    }

    /// Applies DELETED. With a deletionTimestamp it was a deletion: Kubernetes has given the pod up, though its
    /// containers may run on (force delete, kubelet down). Without one, or for a static pod's mirror, it proves
    /// nothing.
    fn remove(&mut self, uid: Uid, deleting: bool) {
        self.change(uid, |record| {
            record.present = false;
            let given_up = deleting && !record.pod.mirror;
            record.uid_state = if given_up {
                record.uid_state.max(UidState::Retired)
            } else {
                proven_for_good(record.uid_state)
            };
        });
    }

    /// Changes a record and updates the indexes.
    pub(super) fn change(&mut self, uid: Uid, edit: impl FnOnce(&mut Record)) {
        let Some(record) = self.records.get_mut(&uid) else {
            return;
        };
        if record.present && !record.pod.host_network {
            for ip in record.pod.addresses() {
                if let Some(claimants) = self.claimants.get_mut(&ip) {
                    claimants.remove(&uid);
                    if claimants.is_empty() {
                        self.claimants.remove(&ip);
                    }
                }
            }
        }
        self.possible_holders.remove(&uid);
        edit(record);
        if record.present && !record.pod.host_network {
            for ip in record.pod.addresses() {
                self.claimants.entry(ip).or_default().insert(uid);
            }
        }
        if record.is_possible_holder() {
            self.possible_holders.insert(uid);
        }
    }
}

/// The state that holds without the object: a phase may have been taken back since, a death cannot be.
fn proven_for_good(uid_state: UidState) -> UidState {
    if uid_state == UidState::Dead {
        UidState::Dead
    } else {
        UidState::Live
    }
}

fn proven_by(pod: &Pod) -> UidState {
    if pod.mirror { UidState::Live } else { pod.uid_state }
}
