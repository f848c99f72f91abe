//! All pods as they live and die, and who claims which IP.

use super::record::{Claim, Life, Record, settled_in};
use crate::facts::{Change, Pod, Standing};
use epguard_common::{Addr, Mode, Uid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// All pods.
#[derive(Debug, Clone, Default)]
pub struct Pods {
    pub(super) records: HashMap<Uid, Record>,
    claimants: HashMap<Addr, BTreeSet<Uid>>,
    candidates: BTreeSet<Uid>,
    pub(super) order: u64,
}

/// The UIDs that a change touched, with what was known before.
pub type Touched = Vec<(Uid, Option<Record>)>;

impl Pods {
    /// What is known of a UID.
    #[must_use]
    pub fn get(&self, uid: Uid) -> Option<&Record> {
        self.records.get(&uid)
    }

    /// True if the pod is proven dead, by more than one list.
    #[must_use]
    pub fn is_dead(&self, uid: Uid) -> bool {
        self.get(uid)
            .is_some_and(|record| record.life == Life::Dead && !record.unconfirmed)
    }

    /// Everything known.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Pods that the API shows no more.
    pub fn remembered(&self) -> impl Iterator<Item = Uid> {
        self.records
            .iter()
            .filter(|(_, record)| !record.present)
            .map(|(uid, _)| *uid)
    }

    /// Pods that show the IP, on whichever network, and that the API shows, dead ones included.
    pub fn claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        self.claimants
            .get(&ip)
            .into_iter()
            .flatten()
            .filter_map(|uid| self.records.get(uid))
    }

    /// Pods that may hold an IP that the API doesn't show.
    pub fn candidates(&self) -> impl Iterator<Item = &Record> {
        self.candidates.iter().filter_map(|uid| self.records.get(uid))
    }

    /// Takes in what a watch says.
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

    /// A pod that an earlier process saw dead at an IP. False if the API shows the pod: then that says what it is.
    /// `bound` is what was in force; its annotations, and its Namespace, are not known any more.
    pub fn inherit_dead(
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
                standing: Standing::Dead,
                ..Pod::default()
            },
            life: Life::Dead,
            present: false,
            claims: BTreeMap::new(),
            unconfirmed: false,
            died: Duration::ZERO,
            settled_in: None,
            candidate_since: None,
        });
        record.unconfirmed &= record.life != Life::Dead;
        if !record.present {
            record.life = Life::Dead;
            record.claims.entry(ip).or_insert(claim);
        }
        !record.present
    }

    /// Forgets a remembered pod that nothing refers to any more.
    pub fn forget(&mut self, uid: Uid) {
        if self.records.get(&uid).is_some_and(|record| !record.present) {
            self.records.remove(&uid);
        }
    }

    /// A list: whoever is absent vanished in a gap, which proves nothing, and no claim is newer than another.
    fn reset(&mut self, now: Duration, pods: Vec<Pod>) -> Touched {
        self.order += 1;
        let listed: BTreeSet<Uid> = pods.iter().map(|pod| pod.uid).collect();
        let gone: Vec<Uid> = self
            .records
            .iter()
            .filter(|(uid, record)| record.present && !listed.contains(uid))
            .map(|(uid, _)| *uid)
            .collect();
        let mut touched: Touched = pods.into_iter().map(|pod| self.upsert(now, pod, true)).collect();
        for uid in gone {
            touched.push((uid, self.records.get(&uid).cloned()));
            self.change(uid, |record| {
                record.present = false;
                record.life = if record.unconfirmed {
                    Life::Live
                } else {
                    proven_for_good(record.life)
                };
            });
        }
        let records = self.records.values_mut();
        for claim in records.flat_map(|record| record.claims.values_mut()) {
            claim.order = self.order;
        }
        touched
    }

    fn upsert(&mut self, now: Duration, pod: Pod, from_list: bool) -> (Uid, Option<Record>) {
        let uid = pod.uid;
        let before = self.records.get(&uid).cloned();
        let order = self.order;
        let settled_in = settled_in(before.as_ref(), &pod, from_list);
        let fresh = before.is_none().then(|| Record {
            pod: pod.clone(),
            life: Life::Live,
            present: false,
            claims: BTreeMap::new(),
            unconfirmed: false,
            died: Duration::ZERO,
            settled_in: None,
            candidate_since: None,
        });
        if let Some(fresh) = fresh {
            self.records.insert(uid, fresh);
        }
        self.change(uid, |record| {
            let known = record.life;
            record.life = if known == Life::Dead && !record.unconfirmed {
                Life::Dead
            } else {
                proven_by(&pod)
            };
            record.unconfirmed = from_list && record.life > known;
            if record.life == Life::Dead && known != Life::Dead {
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
            record.candidate_since = record
                .is_candidate()
                .then(|| record.candidate_since.unwrap_or(now));
        });
        (uid, before)
    }

    /// DELETED. With a deletionTimestamp it was a deletion: Kubernetes has given the pod up, though its containers may
    /// run on (force delete, kubelet down). Without one, or of a static pod's mirror, it says nothing.
    fn remove(&mut self, uid: Uid, deleting: bool) {
        self.change(uid, |record| {
            record.present = false;
            let given_up = deleting && !record.pod.mirror;
            record.life = if given_up {
                record.life.max(Life::Retired)
            } else {
                proven_for_good(record.life)
            };
        });
    }

    /// Changes a record and keeps the indexes right.
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
        self.candidates.remove(&uid);
        edit(record);
        if record.present && !record.pod.host_network {
            for ip in record.pod.addresses() {
                self.claimants.entry(ip).or_default().insert(uid);
            }
        }
        if record.is_candidate() {
            self.candidates.insert(uid);
        }
    }
}

/// A phase that was shown once may have been taken back since; a death can't.
fn proven_for_good(life: Life) -> Life {
    if life == Life::Dead {
        Life::Dead
    } else {
        Life::Live
    }
}

fn proven_by(pod: &Pod) -> Life {
    match pod.standing {
        Standing::Dead if !pod.mirror => Life::Dead,
        Standing::Terminal if !pod.mirror => Life::Retired,
        Standing::Dead | Standing::Terminal | Standing::Live => Life::Live,
    }
}
