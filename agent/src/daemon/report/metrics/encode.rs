//! Families of metrics, written for a collector of `prometheus-client`.

use crate::shared::status::Distribution;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::time::Duration;

pub(super) use prometheus_client::metrics::counter::ConstCounter as Counter;
pub(super) use prometheus_client::metrics::gauge::ConstGauge as Gauge;

/// Appends the metrics of a collector, whose names begin with the prefix.
pub(super) fn encode(
    out: &mut String,
    prefix: &str,
    collector: impl Collector + 'static,
) -> fmt::Result {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(collector));
    text::encode_registry(out, &registry)
}

/// `KIND NAME(LABEL, ...) HELP => SAMPLES;`, of which each has the values of the labels and its own
/// value. Names of durations end with `_seconds`. Every label has a fixed, small set of values.
macro_rules! metrics {
    ($to:expr; $($kind:ident $name:ident($($label:ident),*) $help:literal => $samples:expr;)*) => {
        $(
            let samples = $samples.into_iter().map(|(labels, value)| (labels, $kind::new(value)));
            $crate::daemon::report::metrics::encode::family($to, (stringify!($name), $help), [$(stringify!($label)),*], samples)?;
        )*
    };
}

pub(super) use metrics;

/// Encodes a metric; without samples it is left out.
pub(super) fn family<'a, const N: usize, M: EncodeMetric>(
    to: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    labels: [&str; N],
    samples: impl IntoIterator<Item = ([&'a str; N], M)>,
) -> fmt::Result {
    let mut samples = samples.into_iter().peekable();
    let Some((_, first)) = samples.peek() else {
        return Ok(());
    };
    let seconds = name.strip_suffix("_seconds");
    let (name, unit) = seconds.map_or((name, None), |name| (name, Some(&Unit::Seconds)));
    let mut family = to.encode_descriptor(name, help, unit, first.metric_type())?;
    for (values, metric) in samples {
        let labels: [_; N] = std::array::from_fn(|at| (labels[at], values[at]));
        if N == 0 {
            return metric.encode(family);
        }
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// As a metric.
pub(super) fn seconds_of_us(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}

/// Durations since the agent's start.
pub(super) struct Histogram<'a>(&'a Distribution);

impl<'a> Histogram<'a> {
    pub(super) const fn new(durations: &'a Distribution) -> Self {
        Self(durations)
    }
}

impl EncodeMetric for Histogram<'_> {
    fn encode(&self, mut to: MetricEncoder) -> fmt::Result {
        let Distribution {
            sum_us,
            count,
            buckets,
        } = self.0;
        let within: u64 = buckets.iter().map(|(_, count)| count).sum();
        let mut buckets: Vec<_> = buckets
            .iter()
            .map(|(bound, count)| (seconds_of_us(*bound), *count))
            .collect();
        buckets.push((f64::INFINITY, count.saturating_sub(within)));
        to.encode_histogram::<NoLabelSet>(seconds_of_us(*sum_us), *count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
