//! A list of all objects, or a narrow one, applied a part at a time, so that no list keeps the
//! agent from anything else for long.
//!
//! ```text
//! list -> scanned -> each object applied, denials that it contradicts end -> all endpoints that may be denied judged
//! ```
//!
//! Until the end, denials end at once, and none begins: an object further down the list may
//! contradict it. Facts of other watches, and their lists, are applied meanwhile.

use crate::facts::{Change, Fact, ObjectName, Pod, Service, Slice, Watched};
use crate::state::State;
use crate::state::breaker::ReceivedList;
use crate::state::dirty::Dirty;
use crate::state::index::ClusterIndex;
use crate::state::index::pods::ShownBy;
use epguard_common::{Denial, Uid, UidState};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use std::vec::IntoIter;

/// A list of which a part is applied.
#[derive(Debug, Clone)]
pub struct List {
    /// When it came.
    pub received: Duration,
    /// What it lists, and when it was requested.
    pub request: ReceivedList,
    /// What is left of it.
    pub objects: Objects,
    /// Of a narrow list: the Services that its objects concern.
    pub concerned: BTreeSet<ObjectName>,
}

/// The objects of a list that are still to be applied; none for those that are gone. Pods that are
/// gone come first: until then they would seem to share IPs with new ones. One at a time: two
/// possible holders that come together would each seem not to be the first.
#[derive(Debug, Clone)]
pub enum Objects {
    Pods(IntoIter<Uid>, IntoIter<Pod>),
    /// Of a narrow list.
    SomePods(IntoIter<Uid>, IntoIter<Pod>),
    Slices(IntoIter<(ObjectName, Option<Slice>)>),
    Services(IntoIter<(ObjectName, Option<Service>)>),
}

impl Objects {
    /// The objects of a fact, if it is a list of many.
    #[allow(
        clippy::result_large_err,
        reason = "the error is the fact itself, which goes on"
    )]
    pub fn from_list(cluster: &mut ClusterIndex, fact: Fact) -> Result<Self, Fact> {
        Ok(match fact {
            Fact::Pod(Change::Reset(pods)) => {
                let listed: HashSet<Uid> = pods.iter().map(|pod| pod.uid).collect();
                let gone = cluster.pods.begin_list(&listed);
                // No claim that the list shows first is newer than others: not at its end, and not
                // in between.
                cluster.pods.level_claims();
                Self::Pods(gone.into_iter(), pods.into_iter())
            }
            Fact::Pod(Change::Part(part)) => Self::SomePods(
                cluster.pods.begin_part(&part).into_iter(),
                part.objects.into_iter(),
            ),
            Fact::Slice(list @ (Change::Reset(_) | Change::Part(_))) => {
                Self::Slices(cluster.slices_by_name(list).into_iter())
            }
            Fact::Service(list @ Change::Reset(_)) => {
                Self::Services(cluster.services_by_name(list).into_iter())
            }
            other => return Err(other),
        })
    }

    /// Applies about so many objects and endpoints. False if none is left.
    pub fn apply(
        &mut self,
        cluster: &mut ClusterIndex,
        now: Duration,
        dirty: &mut Dirty,
        most: usize,
    ) -> bool {
        let mut done = 0;
        while done < most {
            let Some(cost) = self.apply_next(cluster, now, dirty) else {
                return false;
            };
            done += cost;
        }
        true
    }

    /// Applies one object; none if none is left.
    fn apply_next(
        &mut self,
        cluster: &mut ClusterIndex,
        now: Duration,
        dirty: &mut Dirty,
    ) -> Option<usize> {
        let mut cost = 1;
        match self {
            Self::Pods(gone, listed) => {
                let touched = match gone.next() {
                    Some(uid) => Some(cluster.pods.vanish(uid)),
                    None => cluster.pods.upsert(now, listed.next()?, ShownBy::List),
                };
                dirty.changed_pod(touched, cluster, now);
            }
            Self::SomePods(gone, listed) => {
                let touched = match gone.next() {
                    Some(uid) => Some(cluster.pods.vanish(uid)),
                    None => cluster.pods.list_in_part(now, listed.next()?),
                };
                dirty.changed_pod(touched, cluster, now);
            }
            Self::Slices(rest) => {
                let (name, slice) = rest.next()?;
                cost += slice
                    .as_ref()
                    .map_or(0, |slice| slice.endpoints.len() * slice.ports.len());
                dirty.changed_slice(cluster, now, &name, slice);
            }
            Self::Services(rest) => {
                let (name, service) = rest.next()?;
                dirty.changed_service(cluster, now, &name, service);
            }
        }
        Some(cost)
    }
}

impl State {
    /// True if a list of the watch is applied only in part: its further facts have to wait.
    pub fn is_applying(&self, watched: Watched) -> bool {
        self.lists.contains_key(&watched)
    }

    /// True between the parts of a list: no Service is judged, for an object further down may
    /// contradict the one at hand. Those that a part concerns have no VIPs until the list is
    /// applied.
    pub fn is_half_applied(&self) -> bool {
        !self.lists.is_empty()
    }

    /// When the first list came of which only a part is applied.
    pub fn half_applied_since(&self) -> Option<Duration> {
        self.lists.values().map(|list| list.received).min()
    }

    /// Applies about `most` objects more of a list.
    pub(crate) fn apply_part(&mut self, watched: Watched, mut rest: List, most: usize) {
        let mut dirty = Dirty::default();
        self.judged = None;
        let (received, levelled) = (rest.received, self.cluster.pods.listed);
        let more = rest
            .objects
            .apply(&mut self.cluster, received, &mut dirty, most);
        self.add_levelled(levelled, &mut dirty);
        if rest.request.part.is_some() {
            rest.concerned.extend(dirty.services.keys().cloned());
        }
        // Until its end, what it shows begins nothing.
        self.lists.insert(watched, rest);
        self.process_changes(received, dirty);
        if !more
            && let Some(List {
                request, concerned, ..
            }) = self.lists.remove(&watched)
        {
            if request.part.is_some() {
                self.listed_in_part(received, &request, concerned);
            } else {
                self.listed(received, request);
            }
        }
    }

    /// Has the Services judged whose denials a narrow list, which was applied in whole, may begin,
    /// and those that wait for it.
    fn listed_in_part(
        &mut self,
        now: Duration,
        list: &ReceivedList,
        concerned: BTreeSet<ObjectName>,
    ) {
        let waiting = self.denials.services_awaiting(&self.cluster, list);
        let services = concerned.into_iter().chain(waiting).collect();
        self.orphan_ips.listed(&self.cluster, list);
        self.process_changes(
            now,
            Dirty {
                orphan_ips: true,
                ..Dirty::default()
            },
        );
        self.second_lists.end_answered(list);
        self.judge_on(list, services);
    }

    /// Has all endpoints judged that may be denied, on a list that was applied in whole: stopped
    /// denials with which it agrees are carried out.
    pub(crate) fn listed(&mut self, now: Duration, mut list: ReceivedList) {
        let was_listed = self.is_listed();
        self.listed.insert(list.kind);
        let are_all = Watched::ALWAYS
            .iter()
            .all(|watched| self.listed.contains(watched));
        let is_last = self.lists.values().all(|rest| rest.request.part.is_some());
        self.is_listed |= are_all && is_last;
        // Pods of the tables: their orphan IPs are restored with them, and no others are recorded.
        let mut restored = Vec::new();
        let mut dirty = Dirty {
            orphan_ips: true,
            ..Dirty::default()
        };
        if was_listed != self.is_listed() {
            // Whichever list came last: the first lists count as one.
            list.kind = Watched::EndpointSlices;
            if let Some(tables) = self.restored.take() {
                restored = self.apply_restored(&tables, now);
                // Numbers of Services without denials are released.
                dirty.vips(self.layout.numbers.iter().map(|(service, _)| service));
            }
            dirty
                .pods
                .extend(self.revivals.restore_deaths(&mut self.cluster, now));
            let dead: Vec<Uid> = restored.iter().chain(&dirty.pods).copied().collect();
            for uid in &dead {
                self.cluster.index_stale(*uid);
            }
            let index = &self.cluster.endpoint_index;
            let services = dead
                .iter()
                .flat_map(|uid| index.of_pod(*uid))
                .map(|(service, _)| service.clone());
            for service in services.collect::<BTreeSet<ObjectName>>() {
                dirty.selector(&mut self.cluster, &service);
            }
        }
        self.process_changes(now, dirty);
        if self.is_listed() && list.kind.bears_proofs() {
            self.second_lists.end_answered(&list);
            let services = self.services_to_judge();
            if !was_listed {
                self.unjudged.clone_from(&services);
            }
            self.judge_on(&list, services);
        }
        self.forget_unneeded(now, restored);
    }

    /// Adds where denials and owners rest on the order of claims, if a list has levelled that
    /// since.
    pub(crate) fn add_levelled(&self, order: u64, dirty: &mut Dirty) {
        if order == self.cluster.pods.listed {
            return;
        }
        let rests_on_order = |proven: &Denial| {
            proven.uid_state == UidState::Retired && proven.owner_uid != Uid::NONE
        };
        let ordered = self
            .denials
            .iter()
            .filter(|(.., denied)| rests_on_order(&denied.proven));
        dirty.pairs(ordered.map(|(service, endpoint, _)| (service, endpoint.ip)));
        dirty.ips.extend(self.cluster.pods.shared_ips());
    }

    /// The Services that have denials, or may get some.
    pub(crate) fn services_to_judge(&self) -> BTreeSet<ObjectName> {
        let services = self.cluster.stale.services().chain(self.denials.services());
        services.cloned().collect()
    }
}
