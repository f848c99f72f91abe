//! What a metric is, and what it is read from.

use crate::kernel::maps::Counters;
use crate::shared::status::{Distribution, Status};

/// What metrics are read from.
#[derive(Debug)]
pub struct Moment {
    /// The agent's state.
    pub status: Status,
    /// COUNTERS.
    pub counters: Counters,
}

/// A family of samples.
#[derive(Debug)]
pub struct Metric {
    /// What it measures.
    pub kind: Kind,
    /// The name, without `epguard_` before it and without what [`Metric::served`] adds.
    pub name: &'static str,
    /// Names of the labels. Every label has a fixed, small set of values.
    pub labels: &'static [&'static str],
    /// Its meaning: what `# HELP` says, and with what its row in docs/metrics.md begins.
    pub help: &'static str,
    /// Reads its samples; if there are none, the family is left out.
    pub samples: for<'a> fn(&'a Moment) -> Vec<Sample<'a>>,
}

/// What a metric measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only goes up.
    Counter,
    /// Seconds that only go up.
    CounterSeconds,
    /// A number that goes up and down.
    Gauge,
    /// Seconds that go up and down.
    GaugeSeconds,
    /// A distribution of seconds.
    Histogram,
}

/// A sample: the values of the metric's labels, in their order, and the value.
pub type Sample<'a> = (Vec<&'a str>, Value<'a>);

/// The value of a sample.
#[derive(Debug)]
pub enum Value<'a> {
    /// A number.
    Count(u64),
    /// Microseconds; they are served as seconds.
    Micros(u64),
    /// Of a histogram.
    Durations(&'a Distribution),
}

impl Metric {
    /// The whole name as it is served, of a histogram without `_bucket`.
    #[must_use]
    pub fn served(&self) -> String {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::CounterSeconds => "_seconds_total",
            Kind::Gauge => "",
            Kind::GaugeSeconds | Kind::Histogram => "_seconds",
        };
        format!("epguard_{}{suffix}", self.name)
    }
}

impl Value<'_> {
    /// Milliseconds.
    pub(super) const fn millis(ms: u64) -> Self {
        Self::Micros(ms.saturating_mul(1000))
    }
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
