//! Lasting conditions that keep denials from being proven. They are for the status and decide
//! nothing.

use crate::facts::{Doubt, ObjectName, Slice};
use crate::state::State;
use crate::state::index::pods::Record;
use crate::state::proof::Own;
use epguard_common::UidState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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

impl State {
    /// The reasons why no finished pod is proven dead, for nodes where none is.
    pub fn unproven(&self) -> Vec<UnprovenDeaths> {
        let leaving = || {
            let pods = self.cluster.pods.leaving();
            pods.filter_map(|record| Some((record.pod.node.as_deref()?, record)))
        };
        let dead = leaving().filter(|(_, record)| record.uid_state == UidState::Dead);
        let proven: BTreeSet<&str> = dead.map(|(node, _)| node).collect();
        let mut found: BTreeMap<&Doubt, (BTreeSet<&str>, usize)> = BTreeMap::new();
        for (node, record) in leaving().filter(|(node, _)| !proven.contains(node)) {
            if let (true, UidState::Retired, Some(doubt)) =
                (record.present, record.pod.uid_state, &record.pod.doubt)
            {
                let (nodes, pods) = found.entry(doubt).or_default();
                nodes.insert(node);
                *pods += 1;
            }
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

    /// Pods that have been possible holders for more than a minute and keep denials from being
    /// proven; the oldest first.
    pub fn possible_holders(&self, now: Duration) -> Vec<PossibleHolder> {
        let since = |record: &Record| {
            now.saturating_sub(record.possible_holder_since.map_or(now, Duration::from))
        };
        let possible_holders = self.cluster.pods.possible_holders();
        let mut lasting: Vec<&Record> = possible_holders
            .filter(|record| since(record) > LASTING)
            .collect();
        lasting.sort_by_key(|record| std::cmp::Reverse(since(record)));
        let holders = lasting.into_iter().take(MOST).map(|record| PossibleHolder {
            pod: record.pod.name.to_string(),
            node: record.pod.node.as_deref().unwrap_or_default().to_owned(),
            since_ms: u64::try_from(since(record).as_millis()).unwrap_or(u64::MAX),
            blocks_terminated: self.cluster.is_own(&record.pod) && !self.orphan_ips.is_empty(),
            blocks_services: self.blocked_by(record),
        });
        holders
            .filter(|holder| holder.blocks_terminated || !holder.blocks_services.is_empty())
            .collect()
    }

    fn blocked_by(&self, record: &Record) -> Vec<String> {
        let cluster = &self.cluster;
        let namespace = &record.pod.name.namespace;
        let services = cluster
            .stale
            .services_in(namespace)
            .chain(cluster.endpoint_index.guests_in(namespace));
        let is_own = |name: &&ObjectName| {
            let service = cluster
                .service(name)
                .filter(|_| self.possibly_held.has(name));
            service.is_some_and(|service| Own::new(cluster, service).contains(&record.pod))
        };
        services
            .filter(is_own)
            .take(MOST)
            .map(ToString::to_string)
            .collect()
    }

    /// How many Services have IPs at which a possible holder keeps denials from being proven, and
    /// for how long the first.
    pub fn possibly_held(&self, now: Duration) -> (usize, Option<Duration>) {
        let oldest = self
            .possibly_held
            .oldest()
            .map(|since| now.saturating_sub(since));
        (self.possibly_held.services(), oldest)
    }

    /// How many `EndpointSlices` and Services there is no room for, by namespace.
    pub fn left_out(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        let slices = self.slices_left_out(false).map(|slice| &slice.name);
        let vips = &self.cluster.vips.left_out.all;
        let services = vips.iter().filter_map(|name| self.cluster.service(name));
        let services = services
            .filter(|service| !service.partial)
            .map(|service| &service.name);
        for left_out in slices.chain(services) {
            *counts.entry(left_out.namespace.to_string()).or_default() += 1;
        }
        counts
    }

    fn slices_left_out(&self, partial: bool) -> impl Iterator<Item = &Slice> {
        let index = &self.cluster.endpoint_index;
        let slices = index
            .left_out
            .all
            .iter()
            .filter_map(|name| index.slices.get(name));
        slices
            .map(Box::as_ref)
            .filter(move |slice| slice.partial == partial)
    }

    /// How many pods, `EndpointSlices` and Services were read only in part, so that packets that
    /// they may concern pass; the first ones with kind, namespace and name.
    pub fn partial(&self) -> (usize, Vec<String>) {
        const NAMED: usize = 3;
        let pods = self
            .cluster
            .pods
            .possible_holders()
            .filter(|record| record.pod.partial);
        let pods = pods.map(|record| format!("Pod {}", record.pod.name));
        let slices = self
            .slices_left_out(true)
            .map(|slice| format!("EndpointSlice {}", slice.name));
        let services = self
            .cluster
            .services
            .iter()
            .filter(|(_, service)| service.partial);
        let services = services.map(|(name, _)| format!("Service {name}"));
        let mut all = pods.chain(slices).chain(services);
        let first: Vec<String> = all.by_ref().take(NAMED).collect();
        (first.len() + all.count(), first)
    }

    /// Services with denials whose packets do not show the Service meant, because another Service
    /// claims one of their VIPs; with that other Service.
    pub fn rivals(&self) -> Vec<(String, String)> {
        let State {
            cluster, denials, ..
        } = self;
        let denied = denials
            .services()
            .filter(|name| denials.of_service(name).next().is_some());
        let rival = |name: &ObjectName| {
            cluster
                .rival(cluster.service(name)?)
                .map(ToString::to_string)
        };
        denied
            .filter_map(|name| Some((name.to_string(), rival(name)?)))
            .collect()
    }
}
