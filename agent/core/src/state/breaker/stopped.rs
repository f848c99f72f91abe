//! A stopped denial: why, since when, and which lists it awaits.

use super::second_list::{ReceivedList, SecondList};
use super::share::allowance;
use crate::facts::Watched;
use crate::state::index::{ClusterIndex, Moment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// Why and since when a denial is stopped: the agent reports its packets, and they pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Why it is stopped.
    pub reason: StopReason,
    /// Since when.
    pub since: Moment,
    /// The newest resourceVersion that the agent had seen by then: a release names it.
    pub resource_version: u64,
    /// The collections of which lists have to agree.
    pub awaits: Awaited,
    /// Lists that agree; a collection may need more than one.
    pub agreed: BTreeSet<SecondList>,
}

/// Collections on which a proof can rest, each once.
pub type Awaited = [Option<Watched>; Watched::ALWAYS.len()];

/// Why a denial is stopped.
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
pub enum StopReason {
    /// It rests on one list alone.
    #[default]
    OneList,
    /// More than half of the Service's endpoints that were ready not long ago would be denied.
    MoreThanHalf,
}

impl Stopped {
    /// A denial that is stopped from now on. It awaits the lists of its proof, and another one of
    /// each kind that brought it. `is_listed`: slices list the IP now.
    pub fn new(
        cluster: &ClusterIndex,
        now: Duration,
        reason: StopReason,
        lists: &[ReceivedList],
        is_listed: bool,
    ) -> Self {
        let awaits = Watched::ALWAYS.map(|kind| {
            let brought_it = lists.iter().any(|list| list.kind == kind);
            let rests_on = match kind {
                Watched::Pods => true,
                Watched::EndpointSlices => is_listed || brought_it,
                _ => brought_it,
            };
            rests_on.then_some(kind)
        });
        Self {
            reason,
            since: now.into(),
            resource_version: cluster.resource_version,
            awaits,
            agreed: BTreeSet::new(),
        }
    }

    /// True if lists of the collection have to agree.
    pub fn awaits(&self, kind: Watched) -> bool {
        self.awaits.contains(&Some(kind))
    }

    /// True if the list counts: it is of an awaited collection, and was requested after the denial
    /// was stopped.
    pub fn is_second(&self, list: &ReceivedList) -> bool {
        self.awaits(list.kind) && list.is_later_than(self.since.into())
    }
}

/// A Service with stopped denials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedService {
    /// Endpoints (IPs) with a stopped denial.
    pub stopped: usize,
    /// All endpoints (IPs) with a denial.
    pub denied: usize,
    /// Endpoints (IPs) that were ready at any time in the last 5 minutes.
    pub ready_recently: usize,
    /// Since when at least one denial has been stopped.
    pub since: Duration,
    /// The newest resourceVersion that the agent had seen when the last of them was stopped.
    pub resource_version: u64,
    /// Why denials are stopped; the half, if for both reasons.
    pub reason: StopReason,
}

impl StoppedService {
    /// True if it is about more than half of the Service, at least two endpoints: worth an alarm.
    /// Smaller numbers are normal at every restart and every gap.
    pub fn is_a_mass(&self) -> bool {
        self.reason == StopReason::MoreThanHalf || self.denied > allowance(self.ready_recently)
    }
}
