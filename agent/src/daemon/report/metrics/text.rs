//! All metrics of a moment, in `OpenMetrics` text. Tests compare docs/metrics.md, the alerts and
//! the dashboard with it.

use super::Process;
use super::encode::{Counter, Gauge, Histogram, encode, family, metrics, seconds_of_us};
use crate::kernel::maps::Counters;
use crate::shared::status::{Cause, Fill, Status, Watch};
use epguard_common::{Count, Effect, Mode, Outcome, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use std::fmt;
use std::time::Duration;
use strum::VariantArray as _;

/// The commit that the agent was built from; `cargo xtask image` sets it.
const REVISION: &str = match option_env!("EPGUARD_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// All metrics of a moment in `OpenMetrics` text, without `process_*` if the process is not known.
/// Errors: none that a caller could fix.
pub fn render(
    status: &Status,
    counters: Counters,
    process: Option<Process>,
) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let collector = MetricsCollector {
        status: status.clone(),
        counters,
    };
    encode(&mut out, "epguard", collector)?;
    if let Some(process) = process {
        encode(&mut out, "process", process)?;
    }
    text::encode_eof(&mut out)?;
    Ok(out)
}

/// What metrics are read from.
#[derive(Debug)]
struct MetricsCollector {
    status: Status,
    counters: Counters,
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

impl Collector for MetricsCollector {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        self.encode_build(&mut to)?;
        self.encode_packets(&mut to)?;
        self.encode_denials(&mut to)?;
        self.encode_view(&mut to)?;
        self.encode_watches(&mut to)?;
        self.encode_node(&mut to)?;
        self.encode_durations(&mut to)
    }
}

impl MetricsCollector {
    fn encode_build(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        metrics! { to;
            Gauge build_info(version, revision) "1, with the version of the agent and the commit that it was built from"
                => [([self.status.version.as_str(), REVISION], 1_u64)];
        }
        Ok(())
    }

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
            Gauge stale_services() "Services that had packets for stale endpoints in the last 5 minutes, denied or only observed"
                => [([], figures.stale_services)];
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
            Gauge socket_lb_gap() "1 while not all calls that a socket load balancer translates are judged"
                => [([], u64::from(self.has_socket_lb_gap()))];
            Gauge unproven_nodes() "Nodes on which pods finish and none is proven dead, so that nothing is denied there as dead-backend"
                => [([], self.unproven_nodes())];
            Gauge unread_objects() "Objects that are too large, or cannot be read in whole, so that what they concern passes"
                => [([], self.unread_objects())];
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
            Gauge mode_policy_problem() "1 while the mode policy is not in force, or only in part"
                => [([], u64::from(self.status.mode_policy.is_some()))];
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
            Gauge ips(state) "IPs by state. The states overlap, so they have no sum"
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

    fn has_socket_lb_gap(&self) -> bool {
        let socket_lb = &self.status.socket_lb;
        !socket_lb.programs.is_empty() && socket_lb.problem.is_some()
    }

    fn unproven_nodes(&self) -> usize {
        let unproven = self.status.unproven.iter();
        unproven.map(|deaths| deaths.nodes.len()).sum()
    }

    fn unread_objects(&self) -> usize {
        self.status.left_out.values().sum::<usize>() + self.status.partial.count
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
