//! Encodes the families of samples, one for each row of the table.

use super::metric::{Kind, Metric, Moment, Value};
use super::table::METRICS;
use crate::kernel::maps::Counters;
use crate::shared::status::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

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
        rows.try_for_each(|metric| family(&mut encoder, metric, self))
    }
}

/// Encodes one family. Without samples there is none.
fn family(to: &mut DescriptorEncoder<'_>, metric: &Metric, moment: &Moment) -> fmt::Result {
    let samples = (metric.samples)(moment);
    if samples.is_empty() {
        return Ok(());
    }
    let (kind, unit) = match metric.kind {
        Kind::Counter => (MetricType::Counter, None),
        Kind::CounterSeconds => (MetricType::Counter, Some(&Unit::Seconds)),
        Kind::Gauge => (MetricType::Gauge, None),
        Kind::GaugeSeconds => (MetricType::Gauge, Some(&Unit::Seconds)),
        Kind::Histogram => (MetricType::Histogram, Some(&Unit::Seconds)),
    };
    let mut family = to.encode_descriptor(metric.name, metric.help, unit, kind)?;
    for (values, value) in samples {
        let labels: Vec<(&str, &str)> = metric.labels.iter().copied().zip(values).collect();
        match labels.as_slice() {
            [] => sample(&mut family, metric.kind, &value)?,
            labels => sample(&mut family.encode_family(&labels)?, metric.kind, &value)?,
        }
    }
    Ok(())
}

fn sample(to: &mut MetricEncoder<'_>, kind: Kind, value: &Value<'_>) -> fmt::Result {
    let counts = matches!(kind, Kind::Counter | Kind::CounterSeconds);
    match value {
        Value::Count(n) if counts => to.encode_counter::<NoLabelSet, _, f64>(n, None),
        Value::Micros(us) if counts => to.encode_counter::<NoLabelSet, _, f64>(&seconds(*us), None),
        Value::Count(n) => to.encode_gauge(n),
        Value::Micros(us) => to.encode_gauge(&seconds(*us)),
        Value::Durations(durations) => {
            let bounds = durations.buckets.iter();
            let mut buckets: Vec<(f64, u64)> =
                bounds.map(|(bound, count)| (seconds(*bound), *count)).collect();
            let within: u64 = durations.buckets.iter().map(|(_, count)| count).sum();
            buckets.push((f64::INFINITY, durations.count.saturating_sub(within)));
            let (sum, count) = (seconds(durations.sum_us), durations.count);
            to.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact below 285 years; a metric is a float")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests;
