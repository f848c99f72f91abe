//! Numbers for metrics: nothing in them names an object.

use super::lenient::entries;
use epguard_core::state::{IpState, PodState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts and measurements beside the rest of the status.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Figures {
    /// Milliseconds from the agent's start until every watch had shown a whole list; none before.
    pub synced_after_ms: Option<u64>,
    /// Pods by state, see [`PodCounts`](epguard_core::state::PodCounts).
    #[serde(deserialize_with = "entries")]
    pub pods: BTreeMap<PodState, u64>,
    /// IPs by state, from the same source.
    #[serde(deserialize_with = "entries")]
    pub ips: BTreeMap<IpState, u64>,
    /// Fill of the maps that the agent writes.
    pub maps: BTreeMap<String, Fill>,
    /// Requests to the API server.
    pub api: ApiFigures,
    /// Records that were evicted, by table.
    pub evicted: Evicted,
    /// Durations from the receipt of an API event to the map write.
    pub propagation: Distribution,
    /// Durations from the change that an `EndpointSlice` was written for, by the API server's clock, to the map
    /// write.
    pub slice_propagation: Distribution,
    /// Durations from an IP's release to its next owner, as the API shows both.
    pub reuse_gap: Distribution,
    /// Plain numbers, each of the metric of docs/metrics.md with a similar name.
    #[serde(flatten, deserialize_with = "entries")]
    pub numbers: BTreeMap<String, u64>,
}

impl Figures {
    /// A plain number; 0 if the agent does not send it.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        self.numbers.get(key).copied().unwrap_or_default()
    }
}

/// Records that were evicted to make room for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Evicted {
    /// Rows of `epguard drops`.
    pub drops: u64,
    /// Denials that are compared with later evidence.
    pub review: u64,
}

/// Requests to the API server, since the agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiFigures {
    /// How many requests were sent; a watch is one.
    pub requests: u64,
    /// Total time that requests waited for `--api-rate`, in microseconds.
    pub throttled_us: u64,
}

/// The entries of a map, and its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Fill {
    /// Entries in it.
    pub entries: usize,
    /// Entries that it has room for.
    pub capacity: usize,
}

/// A histogram of durations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// Sum of the durations in microseconds.
    pub sum_us: u64,
    /// Number of durations.
    pub count: u64,
    /// For each bucket, its upper bound in microseconds, and how many durations are within it and above the bucket
    /// before.
    pub buckets: Vec<(u64, u64)>,
}
