//! Durations in constant memory, and their quantiles.

use super::Distribution;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Largest duration in the quantiles, one minute in microseconds; longer ones count as this long.
const CEILING_US: u64 = 60_000_000;

/// Records durations in constant memory; quantiles are exact to 1 %.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum_us: u64,
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
    /// Without records. Durations above `ceiling_us`, microseconds, count as that long in quantiles and buckets.
    #[must_use]
    pub(crate) fn up_to(ceiling_us: u64) -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, ceiling_us.max(2), 2).expect("the bounds fit"),
            sum_us: 0,
            last_us: 0,
            max_us: 0,
        }
    }

    /// Records one duration.
    pub fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us = self.sum_us.saturating_add(us);
        self.last_us = us;
        self.max_us = self.max_us.max(us);
        self.histogram.saturating_record(us);
    }

    /// The records in buckets, each up to one of `bounds_us`, microseconds, in ascending order; to 1 % of the bound.
    #[must_use]
    pub fn distribution(&self, bounds_us: &[u64]) -> Distribution {
        let mut below = 0;
        let buckets = bounds_us.iter().map(|bound| {
            let up_to = self.histogram.count_between(0, *bound);
            (*bound, up_to - std::mem::replace(&mut below, up_to))
        });
        Distribution { buckets: buckets.collect(), sum_us: self.sum_us, count: self.histogram.len() }
    }

    /// The figures so far.
    #[must_use]
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
        Self::up_to(CEILING_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_histogram_is_all_zero() {
        assert_eq!(Latency::default().figures(), LatencyFigures::default());
    }

    #[test]
    fn quantiles_are_within_one_percent_and_last_and_longest_exact() {
        let mut latency = Latency::default();
        for ms in (1..=1000).rev() {
            latency.record(Duration::from_millis(ms));
        }
        let figures = latency.figures();
        assert_eq!((figures.count, figures.last_us, figures.max_us), (1000, 1_000, 1_000_000));
        assert!((495_000..=505_000).contains(&figures.p50_us), "{figures:?}");
        assert!((980_000..=1_000_000).contains(&figures.p99_us), "{figures:?}");
    }

    #[test]
    fn a_distribution_has_each_record_in_one_bucket_and_the_longer_ones_in_none() {
        let mut latency = Latency::default();
        for ms in [0, 1, 10, 10, 500] {
            latency.record(Duration::from_millis(ms));
        }
        let distribution = latency.distribution(&[1_000, 5_000, 10_000]);
        assert_eq!(distribution.buckets, [(1_000, 2), (5_000, 0), (10_000, 2)]);
        assert_eq!((distribution.count, distribution.sum_us), (5, 521_000));
    }

    #[test]
    fn a_duration_beyond_the_ceiling_is_kept_as_the_longest() {
        let mut latency = Latency::default();
        latency.record(Duration::from_hours(1));
        assert_eq!(latency.figures().max_us, 3_600_000_000);
        assert_eq!(latency.figures().count, 1);
    }
}
