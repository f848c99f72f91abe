//! How many pods and IPs are in which state, for metrics.

use crate::state::{OrphanIp, State};
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

/// Counts pods and IPs. Reads only those that are stale, or about to be.
pub fn pod_counts(state: &State) -> PodCounts {
    PodCounts {
        pods: count_pods(state),
        ips: count_ips(state),
    }
}

fn count_pods(state: &State) -> BTreeMap<PodState, u64> {
    let mut pods = BTreeMap::from([
        (PodState::Draining, 0),
        (PodState::Retired, 0),
        (PodState::Dead, 0),
    ]);
    let mut live = state.cluster.pods.records.len();
    for record in state.cluster.pods.leaving() {
        let pod_state = match record.uid_state {
            UidState::Live if record.pod.deleting => PodState::Draining,
            UidState::Live => continue,
            UidState::Retired => PodState::Retired,
            UidState::Dead => PodState::Dead,
        };
        *pods.entry(pod_state).or_default() += 1;
        live -= 1;
    }
    pods.insert(PodState::Live, number(live));
    pods
}

fn count_ips(state: &State) -> BTreeMap<IpState, u64> {
    let mut draining = BTreeSet::new();
    for record in state.cluster.pods.leaving() {
        if record.is_live() && record.pod.deleting {
            draining.extend(record.pod.addresses());
        }
    }
    let shared: BTreeSet<Addr> = state.cluster.pods.shared_ips().collect();
    let suspects = state.layout.tables.suspects.values();
    let denied = suspects.filter(|suspect| suspect.flags & Suspect::DENIED != 0);
    BTreeMap::from([
        (IpState::Owned, number(state.owners.entries.len())),
        (
            IpState::Draining,
            count_flagged(state, &draining, Owner::DRAINING),
        ),
        (
            IpState::Conflict,
            count_flagged(state, &shared, Owner::CONFLICT),
        ),
        (IpState::Denied, number(denied.count())),
        (
            IpState::Terminated,
            number(denied_orphan_ips(state).count()),
        ),
    ])
}

/// The orphan IPs that are denied. Lifted ones stay in the map, but deny nothing.
pub fn denied_orphan_ips(state: &State) -> impl Iterator<Item = &OrphanIp> {
    let orphan_ips = state.layout.tables.terminated.values();
    orphan_ips.filter(|orphan_ip| orphan_ip.lifted.is_none())
}

/// How many of the IPs have an owner with the flag.
fn count_flagged(state: &State, ips: &BTreeSet<Addr>, flag: u32) -> u64 {
    let owners = ips.iter().filter_map(|ip| state.owners.entries.get(ip));
    number(owners.filter(|owner| owner.flags & flag != 0).count())
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
