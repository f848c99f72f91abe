//! What a metric is, and its encoding: a family of samples for each row of the table.

use super::samples::Moment;
use super::table::METRICS;
use crate::kernel::maps::Counters;
use crate::shared::status::{Distribution, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// A family of samples.
#[derive(Debug)]
pub struct Metric {
    /// What it measures.
    pub kind: MetricType,
    /// The name, without `epguard_` before it and `_total` behind it. Seconds end with `_seconds`.
    pub name: &'static str,
    /// Names of the labels. Every label has a fixed, small set of values.
    pub labels: &'static [&'static str],
    /// Its meaning: what `# HELP` says, and with what its row in docs/metrics.md begins.
    pub help: &'static str,
    /// Reads its samples; if there are none, the family is left out.
    pub samples: for<'a> fn(&'a Moment) -> Vec<Sample<'a>>,
}

/// A sample: the values of the metric's labels, in their order, and the value.
pub type Sample<'a> = (Vec<&'a str>, Value<'a>);

/// The value of a sample.
#[derive(Debug)]
pub enum Value<'a> {
    /// A number.
    Count(u64),
    /// A duration.
    Seconds(f64),
    /// Of a histogram.
    Durations(&'a Distribution),
}

/// All metrics of a moment in `OpenMetrics` text. Errors: none that a caller could fix.
pub fn render(status: &Status, counters: Counters) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("epguard");
    let status = status.clone();
    registry.register_collector(Box::new(Moment { status, counters }));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

impl Collector for Moment {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut rows = METRICS.iter().flat_map(|(_, rows)| *rows);
        rows.try_for_each(|metric| metric.encode(self, &mut encoder))
    }
}

impl Metric {
    /// The whole name as it is served, of a histogram without `_bucket`.
    #[must_use]
    pub fn served(&self) -> String {
        let suffix = if matches!(self.kind, MetricType::Counter) { "_total" } else { "" };
        format!("epguard_{}{suffix}", self.name)
    }

    fn encode(&self, moment: &Moment, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let samples = (self.samples)(moment);
        if samples.is_empty() {
            return Ok(());
        }
        let seconds = self.name.strip_suffix("_seconds");
        let (name, unit) = seconds.map_or((self.name, None), |name| (name, Some(&Unit::Seconds)));
        let mut family = to.encode_descriptor(name, self.help, unit, self.kind)?;
        for (values, value) in samples {
            let labels: Vec<(&str, &str)> = self.labels.iter().copied().zip(values).collect();
            match labels.as_slice() {
                [] => value.encode(self.kind, &mut family)?,
                labels => value.encode(self.kind, &mut family.encode_family(&labels)?)?,
            }
        }
        Ok(())
    }
}

impl Value<'_> {
    /// Milliseconds.
    pub(super) fn millis(ms: u64) -> Self {
        Self::micros(ms.saturating_mul(1000))
    }

    /// Microseconds.
    pub(super) fn micros(us: u64) -> Self {
        Self::Seconds(seconds(us))
    }

    fn encode(&self, kind: MetricType, to: &mut MetricEncoder<'_>) -> fmt::Result {
        match (self, kind) {
            (Self::Count(n), MetricType::Counter) => to.encode_counter::<NoLabelSet, _, f64>(n, None),
            (Self::Seconds(s), MetricType::Counter) => to.encode_counter::<NoLabelSet, _, f64>(s, None),
            (Self::Count(n), _) => to.encode_gauge(n),
            (Self::Seconds(s), _) => to.encode_gauge(s),
            (Self::Durations(Distribution { sum_us, count, buckets }), _) => {
                let within: u64 = buckets.iter().map(|(_, count)| count).sum();
                let bounds = buckets.iter().map(|(bound, count)| (seconds(*bound), *count));
                let buckets: Vec<(f64, u64)> =
                    bounds.chain([(f64::INFINITY, count.saturating_sub(within))]).collect();
                to.encode_histogram::<NoLabelSet>(seconds(*sum_us), *count, &buckets, None)
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact below 285 years; a metric is a float")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

impl From<u64> for Value<'_> {
    fn from(n: u64) -> Self {
        Self::Count(n)
    }
}

impl From<usize> for Value<'_> {
    fn from(n: usize) -> Self {
        Self::Count(n as u64)
    }
}

impl From<bool> for Value<'_> {
    fn from(is: bool) -> Self {
        Self::Count(u64::from(is))
    }
}

impl<'a> From<&'a Distribution> for Value<'a> {
    fn from(durations: &'a Distribution) -> Self {
        Self::Durations(durations)
    }
}

#[cfg(test)]
mod tests;
