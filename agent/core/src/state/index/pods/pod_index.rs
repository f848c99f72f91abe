//! Index of all pods with their states, and of the IPs that they claim.

use super::pod_places::PodPlaces;
use super::possible_holder::is_settled;
use super::record::{Claim, Kubelet, Record};
use crate::facts::{ObjectName, Part, Pod, Text};
use crate::state::index::changed::ChangedPod;
use crate::state::index::incarnation::Incarnation;
use epguard_common::{Addr, Mode, Uid, UidState};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// All pods.
#[derive(Debug, Clone, Default)]
pub struct PodIndex {
    pub(crate) records: HashMap<Uid, Box<Record>>,
    pub(crate) places: PodPlaces,
    pub(crate) order: u64,
    /// `order` at the last list: no claim that came before is newer than another.
    pub(crate) list_order: u64,
}

/// A pod that an earlier process saw.
#[derive(Debug)]
pub struct RestoredPod {
    /// Its UID.
    pub uid: Uid,
    /// Its namespace and name, if known.
    pub name: Option<ObjectName>,
    /// Its node, if known.
    pub node: Option<Text>,
    /// The mode that was in force; for a pod that is gone, annotations are unknown now.
    pub bound: Mode,
}

/// What shows a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownBy {
    /// An event of the watch.
    Watch,
    /// A list of all pods.
    List,
    /// A list of some pods.
    NarrowList,
}

impl PodIndex {
    /// The record of a UID.
    pub fn get(&self, uid: Uid) -> Option<&Record> {
        self.records.get(&uid).map(Box::as_ref)
    }

    /// True if the pod is proven dead, by more than one list.
    pub fn is_dead(&self, uid: Uid) -> bool {
        self.get(uid)
            .is_some_and(|record| record.uid_state == UidState::Dead && !record.is_by_one_list)
    }

    /// All records.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.values().map(Box::as_ref)
    }

    /// Pods, dead ones included, that the API shows and that show the IP on any network.
    pub fn claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        self.places.claimants(ip).filter_map(|uid| self.get(uid))
    }

    /// IPs that several pods show.
    pub fn shared_ips(&self) -> impl Iterator<Item = Addr> {
        self.places.shared.iter().copied()
    }

    /// Possible holders: pods that may hold an IP that the API does not show.
    pub fn possible_holders(&self) -> impl Iterator<Item = &Record> {
        self.records_of(self.places.possible_holders.values().flatten())
    }

    /// The pods of a namespace that may hold an IP without showing it.
    pub fn unshown_holders_in(&self, namespace: &str, ip: Addr) -> impl Iterator<Item = &Record> {
        let possible_holders = self
            .places
            .possible_holders
            .get(namespace)
            .into_iter()
            .flatten();
        let of_other_family = self.places.of_one_family(namespace, !ip.is_v4());
        let holders = self.records_of(possible_holders.chain(of_other_family));
        holders.filter(move |record| record.may_hold_unshown(ip))
    }

    /// Among how many pods these are.
    pub fn count_unshown_in(&self, namespace: &str, ip: Addr) -> usize {
        let possible_holders = self
            .places
            .possible_holders
            .get(namespace)
            .map_or(0, BTreeSet::len);
        let of_other_family = self.places.has_of_one_family(namespace, !ip.is_v4());
        possible_holders
            + if of_other_family {
                self.count_in(namespace)
            } else {
                0
            }
    }

    /// The pods of a namespace that the API shows, or that have ended.
    pub fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Record> {
        self.records_of(self.places.of_namespace(namespace))
    }

    /// The pods of a node that the API shows.
    pub fn shown_on(&self, node: &str) -> impl Iterator<Item = &Record> {
        self.records_of(self.places.on_nodes.get(node).into_iter().flatten())
    }

    /// The live pods of a node, without those of its own network.
    pub fn live_on(&self, node: &str) -> impl Iterator<Item = &Record> {
        self.shown_on(node)
            .filter(|record| record.is_live() && !record.pod.host_network)
    }

    /// The dead pods of a node that the API shows, without those of its own network.
    pub fn dead_on(&self, node: &str) -> impl Iterator<Item = &Record> {
        let is_dead =
            |record: &&Record| record.uid_state == UidState::Dead && !record.pod.host_network;
        self.shown_on(node).filter(is_dead)
    }

    /// The live ones of [`PodIndex::claimants`].
    pub fn live_claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        self.claimants(ip).filter(|record| record.is_live())
    }

    /// Pods that show an IP from `first` to `last`, as [`PodIndex::claimants`].
    pub fn claimants_between(
        &self,
        first: Addr,
        last: Addr,
    ) -> impl Iterator<Item = (Addr, &Record)> {
        let claims = self
            .places
            .claims_from(first)
            .take_while(move |(ip, _)| *ip <= last);
        claims.filter_map(|(ip, uid)| Some((ip, self.get(uid)?)))
    }

    fn records_of<'a>(
        &'a self,
        pods: impl Iterator<Item = &'a Uid>,
    ) -> impl Iterator<Item = &'a Record> {
        pods.filter_map(|uid| self.get(*uid))
    }

    /// Applies ADDED or MODIFIED of the watch; none if no rule reads what changed.
    pub fn show(&mut self, now: Duration, pod: Pod) -> Option<ChangedPod> {
        self.order += 1;
        self.upsert(now, pod, ShownBy::Watch)
    }

    /// Applies DELETED of the watch. With a deletionTimestamp it was a deletion: Kubernetes has
    /// given the pod up, though its containers may run on (force delete, kubelet down). Without
    /// one, or for a static pod's mirror, it proves nothing.
    pub fn delete(&mut self, now: Duration, pod: Pod) -> ChangedPod {
        self.order += 1;
        let uid = pod.uid;
        let deleting = pod.deleting;
        let before = self.get(uid).cloned();
        self.upsert(now, pod, ShownBy::Watch);
        self.change(uid, |record| {
            record.present = false;
            let given_up = deleting && !record.pod.mirror;
            record.uid_state = if given_up {
                record.uid_state.max(UidState::Retired)
            } else {
                proven_for_good(record.uid_state)
            };
        });
        ChangedPod { uid, before }
    }

    /// How many pods of a namespace the API shows.
    pub fn count_in(&self, namespace: &str) -> usize {
        self.places.count_in(namespace)
    }

    /// Begins to apply a list of all pods. Returns those that are not on it.
    pub fn begin_list(&mut self, listed: &HashSet<Uid>) -> Vec<Uid> {
        self.order += 1;
        let gone = self.records.iter();
        let gone = gone.filter(|(uid, record)| record.present && !listed.contains(uid));
        gone.map(|(uid, _)| *uid).collect()
    }

    /// Begins to apply a list of some pods. Returns those that it lacks.
    pub fn begin_part(&mut self, part: &Part<Pod>) -> Vec<Uid> {
        let Part {
            selection,
            objects,
            later,
            ..
        } = part;
        let listed: HashSet<Uid> = objects.iter().map(|pod| pod.uid).collect();
        self.order += 1;
        let around = self
            .records_of(self.places.around(selection))
            .map(|record| &record.pod);
        let gone = around.filter(|pod| {
            selection.has_pod(pod) && !listed.contains(&pod.uid) && !later.contains(&pod.name)
        });
        gone.map(|pod| pod.uid).collect()
    }

    /// Applies a pod of such a list; none if no rule reads what changed. It shows no order of
    /// claims either, but only a claim that the watch lacked makes the known order doubtful.
    pub fn list_in_part(&mut self, now: Duration, pod: Pod) -> Option<ChangedPod> {
        let uid = pod.uid;
        let changed = self.upsert(now, pod, ShownBy::NarrowList)?;
        let claims = self
            .get(uid)
            .into_iter()
            .flat_map(|record| record.claims.iter());
        if claims
            .into_iter()
            .any(|(_, claim)| claim.order == self.order)
        {
            self.level_claims();
        }
        Some(changed)
    }

    /// Applies the absence of a pod from a list: it vanished unseen, which proves nothing.
    pub fn vanish(&mut self, uid: Uid) -> ChangedPod {
        let before = self.get(uid).cloned();
        self.change(uid, |record| {
            record.present = false;
            record.uid_state = if record.is_by_one_list {
                UidState::Live
            } else {
                proven_for_good(record.uid_state)
            };
        });
        ChangedPod { uid, before }
    }

    /// Makes no claim newer than another: a list does not show which came first.
    pub(crate) fn level_claims(&mut self) {
        self.list_order = self.order;
    }

    /// The place of a claim in the order in which claims were first seen.
    pub fn order_of(&self, claim: &Claim) -> u64 {
        claim.order.max(self.list_order)
    }

    /// True for a pod whose facts are as the API showed them last: most changes of pods are of what
    /// no rule reads, like the times of conditions. Starts of containers, and why they wait, matter
    /// only with the status before.
    fn shows_nothing_new(&mut self, pod: &mut Pod, settled: bool, by: ShownBy) -> bool {
        let Some(known) = self.records.get_mut(&pod.uid) else {
            return false;
        };
        let is_as_certain = !known.is_by_narrow_lists || by == ShownBy::NarrowList;
        let is_certain = known.present && !known.is_by_one_list && is_as_certain;
        let runs = (pod.starts, pod.waits);
        (pod.starts, pod.waits) = (known.pod.starts, known.pod.waits);
        let is_same = is_certain && known.settled == settled && known.pod == *pod;
        (pod.starts, pod.waits) = runs;
        if is_same {
            (known.pod.starts, known.pod.waits) = runs;
        }
        is_same
    }

    /// Applies a pod; none if no rule reads what changed.
    pub fn upsert(&mut self, now: Duration, mut pod: Pod, by: ShownBy) -> Option<ChangedPod> {
        let uid = pod.uid;
        let order = self.order;
        let from_list = by != ShownBy::Watch;
        let settled = is_settled(self.get(uid), &pod, from_list);
        if self.shows_nothing_new(&mut pod, settled, by) {
            return None;
        }
        let before = self.get(uid).cloned();
        self.records.entry(uid).or_default();
        self.change(uid, |record| {
            let known = record.uid_state;
            record.uid_state = if known == UidState::Dead && !record.is_by_one_list {
                UidState::Dead
            } else {
                proven_by(&pod)
            };
            let was_doubtful = record.is_by_one_list || record.is_by_narrow_lists;
            record.is_by_one_list = from_list && record.uid_state > known;
            record.is_by_narrow_lists =
                by == ShownBy::NarrowList && was_doubtful && !record.is_by_one_list;
            if record.uid_state == UidState::Dead && known != UidState::Dead {
                record.died = if from_list { Duration::ZERO } else { now }.into();
            }
            record.present = true;
            record.restored = false;
            record.claims.drop_old(&pod);
            for ip in pod.addresses() {
                if pod.host_network {
                    break;
                }
                let published = pod.ips.contains(&ip);
                let is_annotated = !published && record.pod.network_ips.contains(&ip);
                let was_shown = record.present && (record.pod.ips.contains(&ip) || is_annotated);
                let replaces = |known: &Claim| published && !known.published || !was_shown;
                record.claims.add(
                    ip,
                    Claim {
                        published,
                        order,
                        since: now.into(),
                    },
                    replaces,
                );
            }
            record.pod = pod;
            record.settled = settled;
            record.possible_holder_since = record
                .is_possible_holder()
                .then(|| record.possible_holder_since.unwrap_or(now.into()));
        });
        Some(ChangedPod { uid, before })
    }

    /// Notes what reports a pod's status, and the Node object that it runs on.
    pub(crate) fn note_node(
        &mut self,
        uid: Uid,
        kubelet: Kubelet,
        incarnation: Option<Incarnation>,
    ) {
        let Some(record) = self.records.get_mut(&uid) else {
            return;
        };
        if kubelet != Kubelet::Unknown {
            record.kubelet = kubelet;
        }
        if record.is_live() && record.ran_on.is_none() {
            record.ran_on = incarnation;
        }
    }

    /// Changes a record and updates the indexes.
    pub(crate) fn change(&mut self, uid: Uid, edit: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records.get_mut(&uid) {
            self.places.remove(record);
            edit(record);
            self.places.add(record);
        }
    }

    /// Pods that are terminating, or have ended.
    pub fn leaving(&self) -> impl Iterator<Item = &Record> {
        self.records_of(self.places.leaving.iter())
    }

    /// Restores a pod that an earlier process saw dead at an IP. Its status may have been rewritten
    /// since. False if the API shows it alive, which voids that, or dead.
    pub fn restore_dead(&mut self, restored: RestoredPod, ip: Addr, now: Duration) -> bool {
        let RestoredPod {
            uid,
            name,
            node,
            bound,
        } = restored;
        let order = self.order;
        self.records.entry(uid).or_insert_with(|| {
            let pod = Pod {
                uid,
                name: name.unwrap_or_default(),
                node,
                bound,
                ..Pod::default()
            };
            Box::new(Record {
                pod,
                restored: true,
                ..Record::default()
            })
        });
        let known = self.get(uid);
        let is_new =
            known.is_some_and(|record| !record.present || record.uid_state == UidState::Retired);
        self.change(uid, |record| {
            if is_new {
                record.uid_state = UidState::Dead;
                record.pod.bound = record.pod.bound.lower(bound);
                let claim = Claim {
                    published: bound == Mode::Enforce,
                    order,
                    since: now.into(),
                };
                record.claims.add(ip, claim, |_| false);
            }
            record.is_by_one_list &= record.uid_state != UidState::Dead;
        });
        is_new
    }

    /// Puts back a dead pod that the API no longer shows.
    pub(crate) fn keep_dead(&mut self, record: Record) {
        let record = Record {
            present: false,
            possible_holder_since: None,
            ..record
        };
        let uid = record.pod.uid;
        self.records.entry(uid).or_insert_with(|| record.into());
        self.change(uid, |_| {});
    }

    /// Takes a death back: the pod may hold its IP again, or any other one.
    pub(crate) fn take_back(&mut self, uid: Uid) {
        self.change(uid, |record| {
            record.uid_state = UidState::Live;
            record.is_by_one_list = false;
        });
    }

    /// Drops a pod that the API no longer shows and that nothing refers to.
    pub fn forget(&mut self, uid: Uid) {
        if self.get(uid).is_some_and(|record| !record.present)
            && let Some(record) = self.records.remove(&uid)
        {
            self.places.remove(&record);
        }
    }
}

/// The state that holds without the object: a phase may have been taken back since, a death cannot
/// be.
fn proven_for_good(uid_state: UidState) -> UidState {
    if uid_state == UidState::Dead {
        UidState::Dead
    } else {
        UidState::Live
    }
}

fn proven_by(pod: &Pod) -> UidState {
    if pod.mirror {
        UidState::Live
    } else {
        pod.uid_state
    }
}
