//! The list of metrics. docs/metrics.md explains each to an operator.

mod packets;

use super::family::{Families, seconds};
use crate::kernel::maps::Counters;
use crate::shared::status::{ApiFigures, Status, Watch};
use epguard_common::{Mode, Reason};
use epguard_core::carrier::Carrier;
use packets::packets;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
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

#[derive(Debug)]
struct Moment {
    status: Status,
    counters: Counters,
}

impl Collector for Moment {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut families = Families(encoder);
        packets(&mut families, &self.counters)?;
        trust(&mut families, &self.status)?;
        view(&mut families, &self.status)?;
        watches(&mut families, &self.status.watches)?;
        api(&mut families, self.status.figures.api)?;
        sizes(&mut families, &self.status)?;
        durations(&mut families, &self.status)
    }
}

fn trust(to: &mut Families<'_>, status: &Status) -> fmt::Result {
    let denying = || {
        Reason::ALL
            .into_iter()
            .filter(|reason| *reason != Reason::Nothing)
    };
    to.counters(
        ("wrong_denies", "Denials that later evidence showed to be wrong"),
        denying().map(|reason| {
            let wrong = status.wrong_denies.get(reason.as_str()).copied();
            (vec![("reason", reason.as_str())], wrong.unwrap_or_default())
        }),
    )?;
    to.gauges(
        (
            "reason_demoted",
            "1 for a reason that is only observed because it was wrong",
        ),
        None,
        denying().map(|reason| {
            let demoted = status.demoted.iter().any(|other| other == reason.as_str());
            (vec![("reason", reason.as_str())], u64::from(demoted))
        }),
    )?;
    let held: usize = status.breaker.iter().map(|service| service.held).sum();
    to.gauges(
        (
            "breaker_held_services",
            "Services with denials that wait for a second list",
        ),
        None,
        [(vec![], status.breaker.len())],
    )?;
    to.gauges(
        (
            "breaker_held_endpoints",
            "Endpoints whose denial waits for a second list",
        ),
        None,
        [(vec![], held)],
    )
}

fn view(to: &mut Families<'_>, status: &Status) -> fmt::Result {
    to.gauges(
        ("mode", "1 for the node's mode, 0 for the others"),
        None,
        [Mode::Off, Mode::Observe, Mode::Enforce].map(|mode| {
            let is = status.mode == mode.as_str();
            (vec![("mode", mode.as_str())], u64::from(is))
        }),
    )?;
    to.gauges(
        ("synced", "1 once every watch has shown a whole list"),
        None,
        [(vec![], u64::from(status.synced))],
    )?;
    to.gauges(
        ("sync_duration", "From the agent's start until it was synced"),
        Some(&Unit::Seconds),
        status
            .figures
            .synced_after_ms
            .map(|ms| (vec![], seconds(ms * 1000))),
    )?;
    to.gauges(
        ("view_age", "Age of the least fresh watch"),
        Some(&Unit::Seconds),
        status.view_age_ms.map(|ms| (vec![], seconds(ms * 1000))),
    )?;
    let lease_ms = u64::try_from(status.lease_ms).unwrap_or(0);
    to.gauges(
        (
            "lease_remaining",
            "Until denials end unless renewed; 0 when they have ended",
        ),
        Some(&Unit::Seconds),
        [(vec![], seconds(lease_ms * 1000))],
    )
}

fn watches(to: &mut Families<'_>, watches: &BTreeMap<String, Watch>) -> fmt::Result {
    let each = |of: fn(&Watch) -> u64| {
        let samples = watches.iter();
        samples.map(move |(name, watch)| (vec![("watch", name.as_str())], of(watch)))
    };
    to.gauges(
        (
            "watch_up",
            "1 while the watch is connected and, if anything is denied, proven fresh",
        ),
        None,
        each(|watch| u64::from(watch.up)),
    )?;
    to.gauges(
        ("watch_age", "Since the watch was proven to show everything"),
        Some(&Unit::Seconds),
        watches.iter().filter_map(|(name, watch)| {
            let age = seconds(watch.age_ms? * 1000);
            Some((vec![("watch", name.as_str())], age))
        }),
    )?;
    to.counters(
        ("watch_restarts", "How often the watch was lost"),
        each(|watch| watch.restarts),
    )?;
    to.counters(
        ("watch_skipped", "Objects and annotations that could not be read"),
        each(|watch| watch.skipped),
    )
}

fn api(to: &mut Families<'_>, api: ApiFigures) -> fmt::Result {
    to.counters(
        ("api_requests", "Requests to the API server; a watch is one"),
        [(vec![], api.requests)],
    )?;
    to.seconds_total(
        ("api_throttled", "For which requests waited for their turn"),
        api.throttled_us,
    )
}

fn sizes(to: &mut Families<'_>, status: &Status) -> fmt::Result {
    let figures = &status.figures;
    to.gauges(
        ("pods", "Pods that the agent knows, by what is proven of them"),
        None,
        figures
            .pods
            .iter()
            .map(|(state, n)| (vec![("state", state.as_str())], *n)),
    )?;
    to.gauges(
        (
            "ips",
            "IPs that pods own, and of these draining and in conflict; IPs with denials",
        ),
        None,
        figures
            .ips
            .iter()
            .map(|(state, n)| (vec![("state", state.as_str())], *n)),
    )?;
    let maps = || figures.maps.iter();
    to.gauges(
        ("map_entries", "Entries of a map that the agent fills"),
        None,
        maps().map(|(name, fill)| (vec![("map", name.as_str())], fill.entries)),
    )?;
    to.gauges(
        ("map_capacity", "Entries that the map has room for"),
        None,
        maps().map(|(name, fill)| (vec![("map", name.as_str())], fill.capacity)),
    )?;
    to.gauges(
        (
            "refused_denials",
            "Denials that no map has room for; these packets pass",
        ),
        None,
        [(vec![], status.refused)],
    )?;
    to.counters(
        (
            "records_evicted",
            "Records of denials that had to make room for others",
        ),
        ["drops", "review"].map(|table| {
            let records = figures.evicted.get(table).copied().unwrap_or_default();
            (vec![("table", table)], records)
        }),
    )?;
    to.gauges(
        (
            "uncounted_denials",
            "Denials without a count of their own; their packets are counted by reason only",
        ),
        None,
        [(vec![], figures.uncounted)],
    )?;
    to.gauges(
        (
            "intent_carrier",
            "1 for what carries a packet's intent between the hooks, 0 for the others",
        ),
        None,
        Carrier::ALL.map(|carrier| {
            let is = status.carrier.in_use == carrier;
            (vec![("carrier", carrier.as_str())], u64::from(is))
        }),
    )?;
    to.gauges(
        (
            "uncarried_services",
            "Services whose number the carrier has no room for; their packets pass",
        ),
        None,
        [(vec![], status.carrier.services_without_room)],
    )?;
    to.counters(
        (
            "events_skipped",
            "Reports of denials that the agent did not take in, beyond the rate of a node",
        ),
        [(vec![], figures.events_skipped)],
    )?;
    let hooked = |attached: bool| {
        let interfaces = status.interfaces.iter();
        interfaces
            .filter(|interface| interface.attached == attached && !interface.waiting)
            .count()
    };
    to.gauges(
        (
            "interfaces",
            "Interfaces that carry the hooks, and that should but do not",
        ),
        None,
        [("yes", true), ("no", false)].map(|(word, is)| (vec![("attached", word)], hooked(is))),
    )
}

fn durations(to: &mut Families<'_>, status: &Status) -> fmt::Result {
    let figures = &status.figures;
    to.seconds(
        ("propagation", "From the receipt of an API event to the map write"),
        &figures.propagation,
    )?;
    to.seconds(
        (
            "slice_propagation",
            "From the change behind an EndpointSlice's event to the map write",
        ),
        &figures.slice_propagation,
    )?;
    to.seconds(
        ("ip_reuse_gap", "From the release of an IP to its next owner"),
        &figures.reuse_gap,
    )
}

#[cfg(test)]
mod tests;
