//! A pending denial, which waits for a second list.

use super::needs::Needs;
use super::opinions::{Opinion, ReceivedList};
use crate::facts::{ObjectName, Watched};
use crate::state::index::endpoints::Target;
use crate::state::index::{ClusterIndex, Moment};
use epguard_common::{Addr, Denial, Uid, UidState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// What was proven last.
    pub proven: Denial,
    /// Whether it is proven now. A pending denial stays known until a list disagrees: its proof may
    /// come back with an event that shows nothing about the list.
    pub holds: bool,
    /// `None`: the denial is carried out.
    pub pending: Option<Box<Pending>>,
    /// Whether it was proven by what the API showed before it was listed anew: no proof of now goes
    /// on with it.
    pub is_void: bool,
    /// Whether it takes the room of the Service: it is carried out though it is not plain.
    pub takes_room: bool,
}

/// Why and since when a denial is pending, that is, only reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub why: Why,
    pub since: Moment,
    /// The collections of which lists have to agree.
    pub waits: Waits,
    /// Lists that agree; a collection may need more than one.
    pub agreed: BTreeSet<Opinion>,
}

/// Collections on which a proof can rest, each once.
pub type Waits = [Option<Watched>; Watched::ALWAYS.len()];

/// Why a denial is pending.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    strum::Display,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Why {
    /// It rests on one list alone.
    #[default]
    OneList,
    /// More than half of the Service's endpoints that were ready not long ago would be denied.
    #[serde(rename = "more-than-half")]
    #[strum(serialize = "more-than-half")]
    Half,
}

impl Denied {
    /// A denial that has just been proven.
    pub fn new(proven: &Denial, pending: Option<Pending>) -> Self {
        let pending = pending.map(Box::new);
        Self {
            proven: *proven,
            holds: true,
            pending,
            is_void: false,
            takes_room: false,
        }
    }

    /// True if the proof denies packets that were not denied before.
    pub fn is_outgrown_by(&self, proven: &Denial) -> bool {
        let weaker =
            self.proven.uid_state == UidState::Retired && proven.uid_state == UidState::Dead;
        self.proven.dead_uid != proven.dead_uid || weaker
    }

    /// Applies the current proof, and the lists that have come since. False if the denial ends: a
    /// list that it waited for disagrees, or any that shows its pod alive, or it is neither proven
    /// nor pending. `needs` are the lists that denials at the IP rest on.
    pub fn update(
        &mut self,
        lists: &[ReceivedList],
        proven: Option<&Denial>,
        (needs, ip): (&Needs<'_>, Addr),
    ) -> bool {
        if self.is_void {
            return false;
        }
        self.holds = proven.is_some();
        if let Some(proven) = proven.filter(|proven| !self.is_outgrown_by(proven)) {
            self.proven = *proven;
        }
        let Some(pending) = &mut self.pending else {
            return self.holds;
        };
        let is_second = |list: &&ReceivedList| {
            pending.waits.contains(&Some(list.kind)) && list.is_later_than(pending.since.into())
        };
        let lists: Vec<&ReceivedList> = lists.iter().filter(is_second).collect();
        if lists.is_empty() && pending.agreed.is_empty() {
            return true;
        }
        let is_alive = lists
            .iter()
            .any(|list| needs.shows_alive(list, self.proven.dead_uid));
        let needs = needs.at(ip, pending.waits);
        let is_answered = |needed: &&Opinion| lists.iter().any(|list| list.answers(needed));
        let mut answered = needs.iter().filter(is_answered).cloned();
        if !self.holds {
            return !is_alive && answered.next().is_none();
        }
        pending.agreed.extend(answered);
        self.pending
            .take_if(|pending| needs.iter().all(|needed| pending.agreed.contains(needed)));
        true
    }
}

impl Pending {
    /// A pending denial that waits for the lists of its proof, and for another one of each kind
    /// that brought it. `is_listed`: slices list the IP now.
    pub fn new(now: Duration, why: Why, lists: &[ReceivedList], is_listed: bool) -> Self {
        let waits = Watched::ALWAYS.map(|kind| {
            let rests_on = match kind {
                Watched::Pods => true,
                Watched::EndpointSlices => is_listed || lists.iter().any(|list| list.kind == kind),
                _ => lists.iter().any(|list| list.kind == kind),
            };
            rests_on.then_some(kind)
        });
        Self {
            why,
            since: now.into(),
            waits,
            agreed: BTreeSet::new(),
        }
    }
}

/// True if one list of everything and nothing else shows the end of the pod that was meant. A
/// narrow list may confirm the end, but not that other pods are missing.
pub fn rests_on_one_list(cluster: &ClusterIndex, proven: &Denial) -> bool {
    let meant = cluster.pods.get(proven.dead_uid);
    meant.is_some_and(|record| record.unconfirmed || record.narrowly)
}

/// What slices of a Service list now at one IP after the other: many endpoints may be at one.
pub struct Listed<'a> {
    cluster: &'a ClusterIndex,
    service: &'a ObjectName,
    /// The last IP, and the targets there.
    ip: Option<Addr>,
    targets: BTreeSet<Target>,
}

impl<'a> Listed<'a> {
    /// Nothing was looked up.
    pub const fn new(cluster: &'a ClusterIndex, service: &'a ObjectName) -> Self {
        Self {
            cluster,
            service,
            ip: None,
            targets: BTreeSet::new(),
        }
    }

    /// True if slices list the IP.
    pub fn has(&mut self, ip: Addr) -> bool {
        !self.at(ip).is_empty()
    }

    /// True if the kubelet proves the death and no slice lists the pod at the IP any more: two
    /// components agree.
    pub fn is_plain(&mut self, ip: Addr, meant: Uid) -> bool {
        let record = self.cluster.pods.get(meant);
        let dead = record.is_some_and(|record| record.uid_state == UidState::Dead);
        dead && !self.at(ip).contains(&Some(meant))
    }

    fn at(&mut self, ip: Addr) -> &BTreeSet<Target> {
        if self.ip != Some(ip) {
            let targets = self.cluster.endpoint_index.targets_at(self.service, ip);
            let current = targets.filter(|(_, listing)| listing.is_current());
            self.targets = current.map(|(target, _)| target).collect();
            self.ip = Some(ip);
        }
        &self.targets
    }
}
