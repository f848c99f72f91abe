//! Encodes metric families, one after the other.

use crate::shared::status::Distribution;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt;

/// Labels of one sample.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

/// The encoder that families are written to.
pub struct Families<'a>(pub DescriptorEncoder<'a>);

impl Families<'_> {
    /// Values that go up and down. Without samples there is no family.
    pub fn gauges<'a, V: EncodeGaugeValue>(
        &mut self,
        (name, help): (&str, &str),
        unit: Option<&Unit>,
        samples: impl IntoIterator<Item = (Labels<'a>, V)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in samples {
            match labels.as_slice() {
                [] => family.encode_gauge(&value)?,
                labels => family.encode_family(&labels)?.encode_gauge(&value)?,
            }
        }
        Ok(())
    }

    /// Values that only go up, by label; `_total` is appended to the name.
    pub fn counters<'a>(
        &mut self,
        (name, help): (&str, &str),
        samples: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            match labels.as_slice() {
                [] => family.encode_counter::<NoLabelSet, _, f64>(&value, None)?,
                labels => family
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, f64>(&value, None)?,
            }
        }
        Ok(())
    }

    /// A sum of microseconds that only goes up, as seconds; `_seconds_total` is appended to the name.
    pub fn seconds_total(&mut self, (name, help): (&str, &str), us: u64) -> fmt::Result {
        self.0
            .encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&seconds(us), None)
    }

    /// Durations in seconds; `_seconds` is appended to the name.
    pub fn seconds(&mut self, (name, help): (&str, &str), durations: &Distribution) -> fmt::Result {
        let mut buckets: Vec<(f64, u64)> = durations
            .buckets
            .iter()
            .map(|(bound, count)| (seconds(*bound), *count))
            .collect();
        let within: u64 = durations.buckets.iter().map(|(_, count)| count).sum();
        buckets.push((f64::INFINITY, durations.count.saturating_sub(within)));
        let (sum, count) = (seconds(durations.sum_us), durations.count);
        self.0
            .encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

/// Microseconds as seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact below 285 years; a metric is a float"
)]
pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
