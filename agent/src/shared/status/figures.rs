//! Numbers for metrics: nothing in them names an object.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is counted and measured beside the rest of the status.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Milliseconds from the agent's start until every watch had shown a whole list; none before.
    pub synced_after_ms: Option<u64>,
    /// Pods by state, see [`PodCounts`](epguard_core::state::PodCounts).
    pub pods: BTreeMap<String, u64>,
    /// IPs by state, likewise.
    pub ips: BTreeMap<String, u64>,
    /// How full the maps are that the agent fills.
    pub maps: BTreeMap<String, Fill>,
    /// Requests to the API server.
    #[serde(default)]
    pub api: ApiFigures,
    /// Reports of denied packets that the agent did not take in: beyond the rate of a node.
    #[serde(default)]
    pub events_skipped: u64,
    /// Records that had to make room for others, by table: `drops` (what `epguard drops` shows) and `review` (denials that
    /// are compared with later evidence).
    #[serde(default)]
    pub evicted: BTreeMap<String, u64>,
    /// Denials without room in `DENIAL_COUNTS`: their packets are missing in `epguard drops`, Events and the log.
    #[serde(default)]
    pub uncounted: usize,
    /// From the receipt of an API event to the map write.
    pub propagation: Distribution,
    /// From the change that an `EndpointSlice` was written for, by the API server's clock, to the map write.
    pub slice_propagation: Distribution,
    /// From an IP's release to its next owner, as the API shows both.
    pub reuse_gap: Distribution,
}

/// Requests to the API server, since the agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiFigures {
    /// How many were sent; a watch is one.
    pub requests: u64,
    /// Microseconds for which they waited for `--api-rate`, all together.
    pub throttled_us: u64,
}

/// How full a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fill {
    /// Entries in it.
    pub entries: usize,
    /// Entries that it has room for.
    pub capacity: usize,
}

/// Durations, by how long they were.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// Microseconds, all together.
    pub sum_us: u64,
    /// How many there were.
    pub count: u64,
    /// Longest duration of a bucket in microseconds, and how many were at most that long and beyond the bucket before.
    pub buckets: Vec<(u64, u64)>,
}
