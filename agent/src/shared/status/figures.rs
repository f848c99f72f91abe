//! Numbers for metrics: nothing in them names an object.

use super::lenient::entries;
use epguard_core::state::{IpState, PodState};
use hdrhistogram::Histogram;
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
    /// Reports of denials beyond the rate of a node, which the agent skipped.
    pub events_skipped: u64,
    /// Denials without a count of their own; their packets are counted by reason only.
    pub uncounted: u64,
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

impl Distribution {
    /// Without durations, in buckets up to these bounds, microseconds, in ascending order.
    pub fn new(bounds_us: &[u64]) -> Self {
        Self { buckets: bounds_us.iter().map(|bound| (*bound, 0)).collect(), ..Self::default() }
    }

    /// Records one duration. One that is longer than all bounds is in no bucket.
    pub fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us = self.sum_us.saturating_add(us);
        self.count += 1;
        if let Some((_, count)) = self.buckets.iter_mut().find(|(bound, _)| us <= *bound) {
            *count += 1;
        }
    }
}

/// Largest duration in the quantiles, one minute in microseconds; longer ones count as this long.
const CEILING_US: u64 = 60_000_000;

/// Records durations in constant memory; quantiles are exact to 1 %.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
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
        self.histogram.saturating_record(self.last_us);
    }

    /// The figures so far.
    pub fn figures(&self) -> LatencyFigures {
        LatencyFigures {
            count: self.histogram.len(),
            last_us: self.last_us,
            p50_us: self.histogram.value_at_quantile(0.5),
            p99_us: self.histogram.value_at_quantile(0.99),
            max_us: self.max_us,
        }
    }
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, CEILING_US, 2).expect("the bounds fit");
        Self { histogram, last_us: 0, max_us: 0 }
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
    fn quantiles_are_within_one_percent_and_last_and_longest_exact_also_beyond_the_ceiling() {
        let mut latency = Latency::default();
        assert_eq!(latency.figures(), LatencyFigures::default());
        for ms in (1..=1000).rev() {
            latency.record(Duration::from_millis(ms));
        }
        let figures = latency.figures();
        assert_eq!((figures.count, figures.last_us, figures.max_us), (1000, 1_000, 1_000_000));
        assert!((495_000..=505_000).contains(&figures.p50_us), "{figures:?}");
        assert!((980_000..=1_000_000).contains(&figures.p99_us), "{figures:?}");
        latency.record(Duration::from_hours(1));
        assert_eq!((latency.figures().count, latency.figures().max_us), (1001, 3_600_000_000));
    }
}
