//! A pending denial, which waits for a second list.

use super::opinions::{Came, Opinion};
use super::{ClusterIndex, Endpoint, Proven};
use crate::facts::{Name, Watched};
use epguard_common::{Uid, UidState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The breaker's record of one denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The pod that was meant.
    pub meant: Uid,
    state: UidState,
    /// `None`: the denial is carried out.
    pub pending: Option<Pending>,
    /// Whether it is proven now. A pending denial stays known until a list disagrees: its proof may come back with an
    /// event that shows nothing about the list.
    pub proven: bool,
}

/// Why and since when a denial is pending, that is, only reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub why: Why,
    pub since: Duration,
    /// The collections of which a list has to agree.
    pub waits: BTreeSet<Watched>,
    /// Narrow lists that agree; a collection may need more than one.
    agreed: BTreeSet<Opinion>,
}

/// Why a denial is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It rests on one list alone.
    #[default]
    OneList,
    /// More than half of the Service's endpoints that were ready not long ago would be denied.
    #[serde(rename = "more-than-half")]
    Half,
}

impl Why {
    /// As the status and the log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OneList => "one-list",
            Self::Half => "more-than-half",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Known {
    pub fn new(proven: &Proven, pending: Option<Pending>) -> Self {
        Self {
            meant: proven.meant,
            state: proven.state,
            pending,
            proven: true,
        }
    }

    /// True if the proof denies packets that were not denied before.
    pub fn is_outgrown_by(&self, proven: &Proven) -> bool {
        let weaker = self.state == UidState::Retired && proven.state == UidState::Dead;
        self.meant != proven.meant || weaker
    }

    /// Applies the current proof, and the list that was just received, if any. False if the denial ends: a list that it
    /// waited for disagrees, or it is neither proven nor pending. `needs` are the narrow lists that it rests on.
    pub fn update(
        &mut self,
        list: Option<&Came>,
        proven: Option<&Proven>,
        needs: impl Fn(&Self) -> BTreeSet<Opinion>,
    ) -> bool {
        self.proven = proven.is_some();
        if proven.is_some_and(|proven| proven.state == UidState::Retired) {
            self.state = UidState::Retired;
        }
        let Some(pending) = &self.pending else {
            return self.proven;
        };
        let Some(list) = list.filter(|list| pending.waits.contains(&list.kind)) else {
            return true;
        };
        let needs = if list.is_whole() {
            BTreeSet::new()
        } else {
            needs(self)
        };
        if list.is_whole() || needs.iter().any(|needed| list.answers(needed)) {
            if !self.proven {
                return false;
            }
            self.pending = self
                .pending
                .take()
                .and_then(|pending| pending.agreed(list, needs));
        }
        true
    }
}

impl Pending {
    /// A pending denial that waits for the lists of its proof, and for another one of the kind that brought it.
    pub fn new(
        cluster: &ClusterIndex,
        now: Duration,
        why: Why,
        list: Option<Watched>,
        key: (&Name, &Endpoint),
    ) -> Self {
        let (service, endpoint) = key;
        let mut waits: BTreeSet<Watched> = BTreeSet::from([Watched::Pods]);
        waits.extend(list);
        if cluster.endpoint_index.is_listed(service, endpoint.ip) {
            waits.insert(Watched::EndpointSlices);
        }
        Self {
            why,
            since: now,
            waits,
            agreed: BTreeSet::new(),
        }
    }

    /// True if a narrow list has not agreed yet.
    pub fn waits_for(&self, opinion: &Opinion) -> bool {
        self.waits.contains(&opinion.kind) && !self.agreed.contains(opinion)
    }

    /// Notes a list that agrees. None if nothing is left to wait for.
    fn agreed(mut self, list: &Came, needs: BTreeSet<Opinion>) -> Option<Self> {
        let of_kind = |needed: &Opinion| needed.kind == list.kind;
        let mut of_kind: BTreeSet<Opinion> = needs.into_iter().filter(of_kind).collect();
        self.agreed
            .extend(of_kind.extract_if(.., |needed| list.answers(needed)));
        if of_kind.is_subset(&self.agreed) {
            self.waits.remove(&list.kind);
        }
        (!self.waits.is_empty()).then_some(self)
    }
}

/// True if one list and nothing else shows the end of the pod that was meant.
pub(super) fn rests_on_one_list(cluster: &ClusterIndex, proven: &Proven) -> bool {
    let meant = cluster.pods.get(proven.meant);
    meant.is_some_and(|record| record.unconfirmed)
}

/// True if the kubelet proves the death and no slice lists the pod at the IP any more: two components agree.
pub(super) fn is_plain(cluster: &ClusterIndex, service: &Name, endpoint: &Endpoint, meant: Uid) -> bool {
    let record = cluster.pods.get(meant);
    let dead = record.is_some_and(|record| record.uid_state == UidState::Dead);
    dead && !cluster.endpoint_index.lists(service, endpoint.ip, meant)
}
