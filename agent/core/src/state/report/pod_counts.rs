//! How many pods and IPs are in which state, for metrics.

use crate::state::State;
use epguard_common::{Addr, Owner, Suspect, UidState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use strum::IntoStaticStr;

/// The state of a pod, as it is counted.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PodState {
    /// Runs, or may run.
    Live,
    /// Runs and is terminating.
    Draining,
    /// Has finished or was deleted; it may still run.
    Retired,
    /// Can never run again.
    Dead,
}

/// The state of an IP, as it is counted.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum IpState {
    /// A live pod shows it.
    Owned,
    /// Its owner is terminating.
    Draining,
    /// Several live pods show it.
    Conflict,
    /// A denial of a Service's endpoint is about it.
    Denied,
    /// An orphan IP that no packet has come from.
    Terminated,
}

/// Counts by state; a state without pods or IPs has 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCounts {
    /// Pods, with those that the API no longer shows.
    pub pods: BTreeMap<PodState, u64>,
    /// IPs; one may be in several states: an owned one may be draining or in conflict.
    pub ips: BTreeMap<IpState, u64>,
}

impl State {
    /// Counts pods and IPs. Reads only those that are stale, or about to be.
    pub fn counts(&self) -> PodCounts {
        let mut pods = BTreeMap::from(
            [PodState::Draining, PodState::Retired, PodState::Dead].map(|state| (state, 0)),
        );
        let mut live = self.cluster.pods.records.len();
        for record in self.cluster.pods.leaving() {
            let state = match record.uid_state {
                UidState::Live if record.pod.deleting => PodState::Draining,
                UidState::Live => PodState::Live,
                UidState::Retired => PodState::Retired,
                UidState::Dead => PodState::Dead,
            };
            if state != PodState::Live {
                *pods.entry(state).or_default() += 1;
                live -= 1;
            }
        }
        pods.insert(PodState::Live, number(live));
        let flagged = |ips: BTreeSet<Addr>, flag| {
            let owners = ips.iter().filter_map(|ip| self.owners.get(ip));
            count(owners.filter(|owner| owner.flags & flag != 0))
        };
        let deleted = self
            .cluster
            .pods
            .leaving()
            .filter(|record| record.is_live() && record.pod.deleting);
        let leaving = deleted.flat_map(|record| record.pod.addresses());
        let suspects = self.layout.tables.suspects.values();
        // Lifted ones stay in the map, but deny nothing.
        let orphan_ip = self
            .layout
            .tables
            .terminated
            .values()
            .filter(|ip| ip.lifted.is_none());
        let ips = [
            (IpState::Owned, number(self.owners.len())),
            (
                IpState::Draining,
                flagged(leaving.collect(), Owner::DRAINING),
            ),
            (
                IpState::Conflict,
                flagged(self.cluster.pods.shared_ips().collect(), Owner::CONFLICT),
            ),
            (
                IpState::Denied,
                count(suspects.filter(|suspect| suspect.flags & Suspect::DENIED != 0)),
            ),
            (IpState::Terminated, count(orphan_ip)),
        ];
        PodCounts {
            pods,
            ips: ips.into(),
        }
    }
}

fn count(of: impl Iterator) -> u64 {
    number(of.count())
}

fn number(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}
