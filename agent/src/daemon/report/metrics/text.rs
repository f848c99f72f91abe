//! All metrics of a moment, in `OpenMetrics` text. Tests compare docs/metrics.md, the alerts and
//! the dashboard with it.

use crate::kernel::maps::Counters;
use crate::shared::status::{Cause, Distribution, Fill, Status, Watch};
use epguard_common::{Count, Effect, Mode, Outcome, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter as Counter;
use prometheus_client::metrics::gauge::ConstGauge as Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::time::Duration;
use strum::VariantArray as _;

/// All metrics of a moment in `OpenMetrics` text. Errors: none that a caller could fix.
pub fn render(status: &Status, counters: Counters) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("epguard");
    registry.register_collector(Box::new(MetricsCollector {
        status: status.clone(),
        counters,
    }));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

/// What metrics are read from.
#[derive(Debug)]
struct MetricsCollector {
    status: Status,
    counters: Counters,
}

/// `KIND NAME(LABEL, ...) HELP => SAMPLES;`, of which each has the values of the labels and its own
/// value. Names of durations end with `_seconds`. Every label has a fixed, small set of values.
macro_rules! metrics {
    ($to:expr; $($kind:ident $name:ident($($label:ident),*) $help:literal => $samples:expr;)*) => {
        $(
            let samples = $samples.into_iter().map(|(labels, value)| (labels, $kind::new(value)));
            family($to, (stringify!($name), $help), [$(stringify!($label)),*], samples)?;
        )*
    };
}

/// Encodes a metric; without samples it is left out.
fn family<'a, const N: usize, M: EncodeMetric>(
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

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

fn seconds_of_us(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}

/// Durations since the agent's start.
struct Histogram<'a>(&'a Distribution);

impl<'a> Histogram<'a> {
    const fn new(durations: &'a Distribution) -> Self {
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

impl Collector for MetricsCollector {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        self.encode_packets(&mut to)?;
        self.encode_denials(&mut to)?;
        self.encode_view(&mut to)?;
        self.encode_watches(&mut to)?;
        self.encode_node(&mut to)?;
        self.encode_durations(&mut to)
    }
}

impl MetricsCollector {
    fn encode_packets(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        metrics! { to;
            Counter denied_packets(reason, action, mode) "Packets denied, and in observe packets that would have been"
                => self.denied_packets(|count| count.packets);
            Counter denied_bytes(reason, action, mode) "Bytes of these packets, with link-layer headers"
                => self.denied_packets(|count| count.bytes);
            Counter denied_openings(reason, action, mode) "Of these packets those that open a connection (TCP SYN, SCTP INIT)"
                => self.denied_packets(|count| count.openings);
            Counter passed_packets(reason, outcome) "Packets to suspect IPs that passed"
                => self.passed_packets(|count| count.packets);
            Counter passed_bytes(reason, outcome) "Bytes of these packets, with link-layer headers"
                => self.passed_packets(|count| count.bytes);
        }
        for outcome in Outcome::ALL {
            if let Effect::Beside(name) = outcome.effect() {
                let packets = Reason::ALL.map(|reason| self.count(reason, outcome).packets);
                let sum = Counter::new(packets.iter().sum::<u64>());
                family(to, (name, outcome.help()), [], [([], sum)])?;
            }
        }
        Ok(())
    }

    fn encode_denials(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Status {
            figures, breaker, ..
        } = &self.status;
        metrics! { to;
            Counter events_skipped() "Reports of denials beyond the rate of a node, which the agent skipped"
                => [([], figures.events_skipped)];
            Gauge uncounted_denials() "Denials without a count of their own; their packets are counted by reason only"
                => [([], figures.uncounted)];
            Counter wrong_denies(reason) "Denials that later evidence showed to be wrong"
                => Reason::TO_DENY.map(|reason| ([reason.as_str()], self.wrong_denies(reason)));
            Gauge reason_demoted(reason) "1 for a reason that is only observed because it was wrong"
                => Reason::TO_DENY.map(|reason| ([reason.as_str()], u64::from(self.is_demoted(reason))));
            Gauge services_demoted() "Services that are only observed because a denial was wrong"
                => [([], self.status.demoted_services.len())];
            Gauge possibly_held_services() "Services with IPs at which nothing is denied, because one of their own pods may hold them without showing it"
                => [([], figures.possibly_held_services)];
            Gauge possibly_held_seconds() "For how long the first of these IPs has been one"
                => [([], figures.possibly_held_ms.map_or(0.0, seconds))];
            Gauge breaker_stopped_services() "Services with denials that the breaker stops until a second list agrees"
                => [([], breaker.len())];
            Gauge breaker_stopped_endpoints() "Endpoints whose denial the breaker stops until a second list agrees"
                => [([], breaker.iter().map(|service| service.stopped).sum::<usize>())];
            Gauge intent_gaps(cause) "1 while packets show no Service for this cause, so that they pass"
                => Cause::VARIANTS.iter().map(|cause| ([(*cause).into()], u64::from(self.has_gap(*cause))));
            Gauge refused_denials() "Denials that no map has room for; these packets pass"
                => [([], self.status.refused)];
            Counter records_evicted(table) "Records of denials that others evicted"
                => [(["drops"], figures.evicted.drops), (["review"], figures.evicted.review)];
        }
        Ok(())
    }

    fn encode_view(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let figures = &self.status.figures;
        metrics! { to;
            Gauge mode(mode) "1 for the node's mode, 0 for the others"
                => Mode::ALL.map(|each| ([each.as_str()], u64::from(self.status.mode == Some(each))));
            Gauge synced() "1 once every watch has shown a whole list"
                => [([], u64::from(self.status.synced))];
            Gauge sync_duration_seconds() "From the agent's start until it was synced"
                => figures.synced_after_ms.map(|ms| ([], seconds(ms)));
            Gauge view_age_seconds() "Age of the least fresh watch"
                => self.status.view_age_ms.map(|ms| ([], seconds(ms)));
            Gauge lease_remaining_seconds() "Until denials end unless renewed; 0 when they have ended"
                => [([], seconds(u64::try_from(self.status.lease_ms).unwrap_or(0)))];
            Counter lease_lost() "How often the lease ended while there were denials"
                => [([], figures.leases_lost)];
        }
        Ok(())
    }

    fn encode_watches(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        metrics! { to;
            Gauge watch_up(watch) "1 while the watch is connected and, if anything is denied, proven fresh"
                => self.watches().map(|(name, watch)| (name, u64::from(watch.up)));
            Gauge watch_age_seconds(watch) "Since the watch was proven to show everything"
                => self.watches().filter_map(|(name, watch)| Some((name, seconds(watch.age_ms?))));
            Counter watch_restarts(watch) "How often the watch was lost"
                => self.watches().map(|(name, watch)| (name, watch.restarts));
            Counter watch_skipped(watch) "Objects and annotations that could not be read"
                => self.watches().map(|(name, watch)| (name, watch.skipped));
        }
        Ok(())
    }

    fn encode_node(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let figures = &self.status.figures;
        let (hooked, bare) = self.interfaces();
        metrics! { to;
            Counter api_requests() "Requests to the API server; a watch is one"
                => [([], figures.api.requests)];
            Counter api_throttled_seconds() "Time that requests waited for their turn"
                => [([], seconds_of_us(figures.api.throttled_us))];

            Gauge pods(state) "Pods in the agent's index, by state"
                => figures.pods.iter().map(|(state, n)| ([state.into()], *n));
            Gauge ips(state) "IPs that pods own, and of these draining and in conflict; IPs with denials"
                => figures.ips.iter().map(|(state, n)| ([state.into()], *n));
            Gauge map_entries(map) "Entries of a map that the agent fills"
                => self.maps().map(|(name, fill)| (name, fill.entries));
            Gauge map_capacity(map) "Entries that the map has room for"
                => self.maps().map(|(name, fill)| (name, fill.capacity));
            Gauge interfaces(attached) "Interfaces with the hooks, and interfaces that lack them"
                => [(["yes"], hooked), (["no"], bare)];
        }
        Ok(())
    }

    fn encode_durations(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let figures = &self.status.figures;
        metrics! { to;
            Histogram propagation_seconds() "From the receipt of an API event to the map write"
                => [([], &figures.propagation)];
            Histogram slice_propagation_seconds() "From the change behind an EndpointSlice's event to the map write"
                => [([], &figures.slice_propagation)];
            Histogram ip_reuse_gap_seconds() "From the release of an IP to its next owner, up to 10 minutes"
                => [([], &figures.reuse_gap)];
        }
        Ok(())
    }
}

impl MetricsCollector {
    fn count(&self, reason: Reason, outcome: Outcome) -> Count {
        self.counters
            .get(&(reason, outcome))
            .copied()
            .unwrap_or_default()
    }

    fn wrong_denies(&self, reason: Reason) -> u64 {
        let count = self.status.wrong_denies.get(&reason);
        count.copied().unwrap_or(0)
    }

    fn is_demoted(&self, reason: Reason) -> bool {
        self.status.demoted.contains(&reason)
    }

    fn has_gap(&self, cause: Cause) -> bool {
        let gaps = &self.status.translators.gaps;
        gaps.iter().any(|gap| gap.cause == cause)
    }

    fn watches(&self) -> impl Iterator<Item = ([&'static str; 1], &Watch)> {
        let watches = self.status.watches.iter();
        watches.map(|(name, watch)| ([name.into()], watch))
    }

    fn maps(&self) -> impl Iterator<Item = ([&str; 1], &Fill)> {
        let maps = self.status.figures.maps.iter();
        maps.map(|(name, fill)| ([name.as_str()], fill))
    }

    /// How many interfaces have the hooks, and how many lack them.
    fn interfaces(&self) -> (usize, usize) {
        let mut hooked = 0;
        let mut bare = 0;
        for interface in &self.status.interfaces {
            match (interface.waiting, interface.attached) {
                (true, _) => {}
                (false, true) => hooked += 1,
                (false, false) => bare += 1,
            }
        }
        (hooked, bare)
    }

    /// Every reason with every denial, even if there was none.
    fn denied_packets(&self, of: fn(Count) -> u64) -> Vec<([&'static str; 3], u64)> {
        let mut samples = Vec::new();
        for reason in Reason::TO_DENY {
            for outcome in Outcome::of_denials() {
                let (action, mode) = match outcome.effect() {
                    Effect::Stopped(action) => (action.as_str(), "enforce"),
                    Effect::Observed | Effect::Passed | Effect::Beside(_) => ("pass", "observe"),
                };
                let labels = [reason.as_str(), action, mode];
                samples.push((labels, of(self.count(reason, outcome))));
            }
        }
        samples
    }

    /// Only what occurred.
    fn passed_packets(&self, of: fn(Count) -> u64) -> impl Iterator<Item = ([&str; 2], u64)> {
        let counted = self.counters.iter().filter(|(_, count)| count.packets > 0);
        counted
            .filter(|((_, outcome), _)| outcome.effect() == Effect::Passed)
            .map(move |((reason, outcome), count)| {
                ([reason.as_str(), outcome.as_str()], of(*count))
            })
    }
}
