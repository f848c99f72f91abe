//! Lasting conditions that keep denials from being proven. They are for the status and decide
//! nothing.

use crate::facts::{Doubt, Slice};
use crate::state::State;
use crate::state::index::pods::Record;
use crate::state::proof::OwnPods;
use epguard_common::UidState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A possible holder is reported after this time.
const LASTING: Duration = Duration::from_mins(1);

/// How many possible holders are checked, and Services named for each.
const MOST: usize = 20;

/// Nodes on which pods finish and none is proven dead.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnprovenDeaths {
    /// The manager that writes these pods' phase, if the doubt is about it. None: the kubelet does
    /// not report `PodReadyToStartContainers`.
    pub manager: Option<String>,
    /// The nodes.
    pub nodes: Vec<String>,
    /// How many such pods there are.
    pub pods: usize,
}

/// A pod that may hold an IP that it does not show, and so keeps a denial from being proven.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PossibleHolder {
    /// `namespace/name`.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// For how many milliseconds it has been a possible holder.
    pub since_ms: u64,
    /// True if it keeps `terminated` from being denied on this node.
    pub blocks_terminated: bool,
    /// `namespace/name` of Services whose dead endpoints are not denied because of it.
    pub blocks_services: Vec<String>,
}

/// The reasons why no finished pod is proven dead, for nodes where none is.
pub fn unproven_deaths(state: &State) -> Vec<UnprovenDeaths> {
    let mut proven: BTreeSet<&str> = BTreeSet::new();
    for record in state.cluster.pods.leaving() {
        if let Some(node) = &record.pod.node
            && record.uid_state == UidState::Dead
        {
            proven.insert(node);
        }
    }
    let mut found: BTreeMap<&Doubt, (BTreeSet<&str>, usize)> = BTreeMap::new();
    for record in state.cluster.pods.leaving() {
        let (Some(node), Some(doubt)) = (&record.pod.node, &record.pod.doubt) else {
            continue;
        };
        if proven.contains(node.as_str())
            || !record.present
            || record.pod.uid_state != UidState::Retired
        {
            continue;
        }
        let (nodes, pods) = found.entry(doubt).or_default();
        nodes.insert(node);
        *pods += 1;
    }
    let deaths = found.into_iter().map(|(doubt, (nodes, pods))| {
        let manager = match doubt {
            Doubt::Writer(manager) => Some(manager.to_string()),
            Doubt::SandboxCondition => None,
        };
        UnprovenDeaths {
            manager,
            nodes: nodes.into_iter().map(str::to_owned).collect(),
            pods,
        }
    });
    deaths.collect()
}

/// Pods that have been possible holders for more than a minute and keep denials from being proven;
/// the oldest first.
pub fn possible_holders(state: &State, now: Duration) -> Vec<PossibleHolder> {
    let mut lasting: Vec<(Duration, &Record)> = Vec::new();
    for record in state.cluster.pods.possible_holders() {
        let since = record.possible_holder_since.map_or(now, Duration::from);
        let lasts = now.saturating_sub(since);
        if lasts > LASTING {
            lasting.push((lasts, record));
        }
    }
    lasting.sort_by_key(|(lasts, _)| Reverse(*lasts));
    let mut holders = Vec::new();
    for (lasts, record) in lasting.into_iter().take(MOST) {
        let holder = PossibleHolder {
            pod: record.pod.name.to_string(),
            node: record.pod.node.as_deref().unwrap_or_default().to_owned(),
            since_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
            blocks_terminated: state.cluster.is_own(&record.pod) && !state.orphan_ips.is_empty(),
            blocks_services: services_blocked_by(state, record),
        };
        if holder.blocks_terminated || !holder.blocks_services.is_empty() {
            holders.push(holder);
        }
    }
    holders
}

fn services_blocked_by(state: &State, record: &Record) -> Vec<String> {
    let cluster = &state.cluster;
    let namespace = &record.pod.name.namespace;
    let of_namespace = cluster.stale.services_in(namespace);
    let guests = cluster.endpoint_index.guests_in(namespace);
    let mut blocked = Vec::new();
    for name in of_namespace.chain(guests) {
        let Some(service) = cluster.service(name) else {
            continue;
        };
        if state.possibly_held.has(name) && OwnPods::new(cluster, service).contains(&record.pod) {
            blocked.push(name.to_string());
        }
        if blocked.len() == MOST {
            break;
        }
    }
    blocked
}

/// How many Services have IPs at which a possible holder keeps denials from being proven, and for
/// how long the first.
pub fn possibly_held(state: &State, now: Duration) -> (usize, Option<Duration>) {
    let oldest = state.possibly_held.oldest();
    (
        state.possibly_held.services(),
        oldest.map(|since| now.saturating_sub(since)),
    )
}

/// How many `EndpointSlices` and Services there is no room for, by namespace.
pub fn left_out(state: &State) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for slice in slices_left_out(state, false) {
        let namespace = slice.name.namespace.to_string();
        *counts.entry(namespace).or_default() += 1;
    }
    for name in &state.cluster.vips.left_out.all {
        let is_whole = state
            .cluster
            .service(name)
            .is_some_and(|service| !service.partial);
        if is_whole {
            *counts.entry(name.namespace.to_string()).or_default() += 1;
        }
    }
    counts
}

fn slices_left_out(state: &State, partial: bool) -> impl Iterator<Item = &Slice> {
    let index = &state.cluster.endpoint_index;
    let names = index.left_out.all.iter();
    names
        .filter_map(|name| index.slices.get(name))
        .map(Box::as_ref)
        .filter(move |slice| slice.partial == partial)
}

/// How many pods, `EndpointSlices` and Services were read only in part, so that packets that they
/// may concern pass; the first ones with kind, namespace and name.
pub fn read_in_part(state: &State) -> (usize, Vec<String>) {
    const NAMED: usize = 3;
    let pods = state
        .cluster
        .pods
        .possible_holders()
        .filter(|record| record.pod.partial)
        .map(|record| format!("Pod {}", record.pod.name));
    let slices = slices_left_out(state, true).map(|slice| format!("EndpointSlice {}", slice.name));
    let services = state
        .cluster
        .services
        .iter()
        .filter(|(_, service)| service.partial)
        .map(|(name, _)| format!("Service {name}"));
    let mut all = pods.chain(slices).chain(services);
    let first: Vec<String> = all.by_ref().take(NAMED).collect();
    (first.len() + all.count(), first)
}

/// Services with denials whose packets do not show the Service meant, because another Service
/// claims one of their VIPs; with that other Service.
pub fn rivals(state: &State) -> Vec<(String, String)> {
    let mut rivals = Vec::new();
    for name in state.denials.services() {
        let Some(service) = state.cluster.service(name) else {
            continue;
        };
        if state.denials.has_proven(name)
            && let Some(rival) = state.cluster.rival(service)
        {
            rivals.push((name.to_string(), rival.to_string()));
        }
    }
    rivals
}
