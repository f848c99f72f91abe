//! Numbers for metrics: nothing in them names an object.

use super::lenient::entries;
use epguard_common::Outcome;
use epguard_core::state::{IpState, PodState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

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
    /// Services with IPs at which nothing is denied because one of their own pods may hold them.
    pub possibly_held_services: usize,
    /// For how many milliseconds the first of these IPs has been one.
    pub possibly_held_ms: Option<u64>,
    /// Services that had packets for stale endpoints in the last 5 minutes.
    pub stale_services: usize,
    /// Requests to the API server.
    pub api: ApiFigures,
    /// Records that were evicted, by table.
    pub evicted: Evicted,
    /// Durations from the receipt of an API event to the map write.
    pub propagation: Distribution,
    /// Durations from the change that an `EndpointSlice` was written for, by the API server's
    /// clock, to the map write.
    pub slice_propagation: Distribution,
    /// Durations from an IP's release to its next owner, as the API shows both.
    pub reuse_gap: Distribution,
    /// Reports of denials beyond the rate of a node, which the agent skipped.
    pub events_skipped: u64,
    /// Denials without a count of their own; their packets are counted by reason only.
    pub uncounted: u64,
    /// Packets to suspects that passed, by the cause, since the datapath was attached.
    #[serde(deserialize_with = "entries")]
    pub passed: BTreeMap<Outcome, u64>,
    /// How often the lease ended while there were denials.
    pub leases_lost: u64,
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
    /// For each bucket, its upper bound in microseconds, and how many durations are within it and
    /// above the bucket before.
    pub buckets: Vec<(u64, u64)>,
}

impl Distribution {
    /// Without durations, in buckets up to these bounds, microseconds, in ascending order.
    pub fn new(bounds_us: &[u64]) -> Self {
        Self {
            buckets: bounds_us.iter().map(|bound| (*bound, 0)).collect(),
            ..Self::default()
        }
    }

    /// Records one duration. One that is longer than all bounds is in no bucket.
    pub fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us = self.sum_us.saturating_add(us);
        self.count += 1;
        let bucket = self.buckets.partition_point(|(bound, _)| *bound < us);
        if let Some((_, count)) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
    }

    /// The upper bound of the bucket in which this percentile lies; none if it is longer than all
    /// bounds.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let mut up_to = 0;
        let within = self.buckets.iter().find(|(_, count)| {
            up_to += count;
            up_to * 100 >= self.count * percent
        });
        within.map(|(bound, _)| *bound)
    }
}

const MINUTE_US: u64 = 60_000_000;

/// Records durations in constant memory; quantiles are exact to 1 %, and a longer one counts as a
/// minute.
#[derive(Debug, Clone)]
pub struct Latency {
    durations: Distribution,
    last_us: u64,
    max_us: u64,
}

/// The quantiles of a [`Latency`] since the start. All zero before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencyFigures {
    /// Number of records.
    pub count: u64,
    /// The newest, microseconds.
    pub last_us: u64,
    /// Median, microseconds.
    pub p50_us: u64,
    /// 99th percentile, microseconds.
    pub p99_us: u64,
    /// The longest, microseconds.
    pub max_us: u64,
}

impl Latency {
    /// Records one duration.
    pub fn record(&mut self, took: Duration) {
        self.last_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.max_us = self.max_us.max(self.last_us);
        self.durations.record(took);
    }

    /// The figures so far.
    pub fn figures(&self) -> LatencyFigures {
        let Self {
            durations,
            last_us,
            max_us,
        } = self;
        LatencyFigures {
            count: durations.count,
            last_us: *last_us,
            p50_us: self.percentile(50),
            p99_us: self.percentile(99),
            max_us: *max_us,
        }
    }

    fn percentile(&self, percent: u64) -> u64 {
        let bound = self.durations.percentile(percent);
        bound.unwrap_or(MINUTE_US).min(self.max_us)
    }
}

impl Default for Latency {
    fn default() -> Self {
        let bounds = std::iter::successors(Some(1), |us| Some(us + (us / 100).max(1)));
        let bounds: Vec<u64> = bounds
            .take_while(|us| *us < MINUTE_US)
            .chain([MINUTE_US])
            .collect();
        Self {
            durations: Distribution::new(&bounds),
            last_us: 0,
            max_us: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_has_each_record_in_one_bucket_and_the_longer_ones_in_none() {
        let mut distribution = Distribution::new(&[1_000, 5_000, 10_000]);
        for ms in [0, 1, 10, 10, 500] {
            distribution.record(Duration::from_millis(ms));
        }
        assert_eq!(distribution.buckets, [(1_000, 2), (5_000, 0), (10_000, 2)]);
        assert_eq!((distribution.count, distribution.sum_us), (5, 521_000));
    }

    #[test]
    fn quantiles_are_within_one_percent_and_last_and_longest_exact_also_beyond_a_minute() {
        let mut latency = Latency::default();
        assert_eq!(latency.figures(), LatencyFigures::default());
        for ms in (1..=1000).rev() {
            latency.record(Duration::from_millis(ms));
        }
        let figures = latency.figures();
        assert_eq!(
            (figures.count, figures.last_us, figures.max_us),
            (1000, 1_000, 1_000_000)
        );
        assert!((495_000..=505_000).contains(&figures.p50_us), "{figures:?}");
        assert!(
            (980_000..=1_000_000).contains(&figures.p99_us),
            "{figures:?}"
        );
        for _ in 0..1001 {
            latency.record(Duration::from_hours(1));
        }
        let LatencyFigures {
            count,
            p50_us,
            p99_us,
            max_us,
            ..
        } = latency.figures();
        assert_eq!((count, max_us), (2001, 3_600_000_000));
        assert_eq!((p50_us, p99_us), (60_000_000, 60_000_000));
    }
}
