//! Quantiles of durations in constant memory.

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
        let histogram = Histogram::new_with_bounds(1, CEILING_US, 2).expect("the bounds fit");
        Self { histogram, last_us: 0, max_us: 0 }
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
    fn a_duration_beyond_the_ceiling_is_kept_as_the_longest() {
        let mut latency = Latency::default();
        latency.record(Duration::from_hours(1));
        assert_eq!(latency.figures().max_us, 3_600_000_000);
        assert_eq!(latency.figures().count, 1);
    }
}
