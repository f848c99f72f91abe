//! Every metric. What is served comes from this table, and tests compare docs/metrics.md, the alerts and the dashboard
//! with it.

use super::samples::{each, millis, one, reasons};
use super::text::{Metric, Value};
use crate::shared::status::Cause;
use epguard_common::{Mode, Outcome};
use prometheus_client::metrics::MetricType;
use strum::VariantArray as _;

/// `KIND NAME(LABEL, ...) HELP => how the samples are read;`
macro_rules! metrics {
    ($($kind:ident $name:ident($($label:ident),*) $help:literal => $samples:expr;)*) => {
        &[$(Metric {
            kind: MetricType::$kind,
            name: stringify!($name),
            labels: &[$(stringify!($label)),*],
            help: $help,
            samples: $samples,
        }),*]
    };
}

/// The metrics, by the headings of docs/metrics.md.
pub const METRICS: [(&str, &[Metric]); 6] = [
    ("Packets", PACKETS),
    ("Trust", TRUST),
    ("View", VIEW),
    ("API server", API),
    ("Sizes", SIZES),
    ("Durations", DURATIONS),
];

const PACKETS: &[Metric] = metrics! {
    Counter denied_packets(reason, action, mode) "Packets denied, and in observe packets that would have been"
        => |moment| moment.denied(|count| count.packets);
    Counter denied_bytes(reason, action, mode) "Bytes of these packets, with link-layer headers"
        => |moment| moment.denied(|count| count.bytes);
    Counter denied_openings(reason, action, mode) "Of these packets those that open a connection (TCP SYN, SCTP INIT)"
        => |moment| moment.denied(|count| count.openings);
    Counter passed_packets(reason, outcome) "Packets to suspect IPs that passed"
        => |moment| moment.passed(|count| count.packets);
    Counter passed_bytes(reason, outcome) "Bytes of these packets, with link-layer headers"
        => |moment| moment.passed(|count| count.bytes);
    Counter events_lost() "Denials that the ring buffer had no room to report"
        => |moment| moment.sum(Outcome::EventLost);
    Counter events_suppressed() "Denials beyond the rate at which one suspect is reported"
        => |moment| moment.sum(Outcome::EventSuppressed);
    Counter events_skipped() "Reports of denials beyond the rate of a node, which the agent skipped"
        => |moment| one(moment.status.figures.events_skipped);
    Counter answers_suppressed() "Denied packets that were dropped, since a rate limit left no answer"
        => |moment| moment.sum(Outcome::AnswerSuppressed);
    Counter answers_failed() "Denied packets that were dropped, since the answer could not be sent"
        => |moment| moment.sum(Outcome::AnswerFailed);
    Counter redirects_failed() "Packets of redirected flows that were dropped, since they could not be sent to the endpoint"
        => |moment| moment.sum(Outcome::RedirectFailed);
    Counter redirects_beyond_share() "Redirected connections beyond their client's share of FLOWS, which a flood may reset"
        => |moment| moment.sum(Outcome::BeyondShare);
    Counter redirects_refused() "Packets of flows that were rejected, since redirecting them could have reset another connection"
        => |moment| moment.sum(Outcome::RedirectRefused);
    Counter calls_refused_unseen() "Calls that were refused instead of dropped or captured, since their packets may meet no hook"
        => |moment| moment.sum(Outcome::RefusedUnseen);
    Counter sockets_not_recorded() "Connected sockets that had no room for the Service that they mean, so that later packets pass"
        => |moment| moment.sum(Outcome::NotRecorded);
    Counter packets_of_unknown_sockets() "Packets to a suspect, beside a socket load balancer, whose socket shows no Service"
        => |moment| moment.sum(Outcome::UnknownSocket);
    Counter calls_translated() "Calls of sockets for which a socket load balancer has chosen an endpoint"
        => |moment| moment.sum(Outcome::Translated);
};

const TRUST: &[Metric] = metrics! {
    Counter wrong_denies(reason) "Denials that later evidence showed to be wrong"
        => |moment| reasons(|reason| moment.status.wrong_denies.get(reason).copied().unwrap_or_default());
    Gauge reason_demoted(reason) "1 for a reason that is only observed because it was wrong"
        => |moment| reasons(|reason| moment.status.demoted.contains(reason));
    Gauge breaker_held_services() "Services with denials that wait for a second list"
        => |moment| one(moment.status.breaker.len());
    Gauge breaker_held_endpoints() "Endpoints whose denial waits for a second list"
        => |moment| one(moment.status.breaker.iter().map(|service| service.held).sum::<usize>());
    Gauge intent_gaps(cause) "1 while packets show no Service for this cause, so that they pass"
        => |moment| {
            let gaps = |cause| moment.status.translators.gaps.iter().any(|gap| gap.cause == cause);
            each(Cause::VARIANTS.iter().map(|cause| ((*cause).into(), gaps(*cause))))
        };
    Gauge refused_denials() "Denials that no map has room for; these packets pass"
        => |moment| one(moment.status.refused);
    Counter records_evicted(table) "Records of denials that others evicted"
        => |moment| {
            let evicted = moment.status.figures.evicted;
            each([("drops", evicted.drops), ("review", evicted.review)])
        };
    Gauge uncounted_denials() "Denials without a count of their own; their packets are counted by reason only"
        => |moment| one(moment.status.figures.uncounted);
};

const VIEW: &[Metric] = metrics! {
    Gauge mode(mode) "1 for the node's mode, 0 for the others"
        => |moment| each(Mode::ALL.map(|mode| (mode.as_str(), moment.status.mode == Some(mode))));
    Gauge synced() "1 once every watch has shown a whole list"
        => |moment| one(moment.status.synced);
    Gauge sync_duration_seconds() "From the agent's start until it was synced"
        => |moment| millis(moment.status.figures.synced_after_ms);
    Gauge view_age_seconds() "Age of the least fresh watch"
        => |moment| millis(moment.status.view_age_ms);
    Gauge lease_remaining_seconds() "Until denials end unless renewed; 0 when they have ended"
        => |moment| millis(Some(u64::try_from(moment.status.lease_ms).unwrap_or(0)));
    Gauge watch_up(watch) "1 while the watch is connected and, if anything is denied, proven fresh"
        => |moment| moment.watches(|watch| Some(watch.up.into()));
    Gauge watch_age_seconds(watch) "Since the watch was proven to show everything"
        => |moment| moment.watches(|watch| watch.age_ms.map(Value::millis));
    Counter watch_restarts(watch) "How often the watch was lost"
        => |moment| moment.watches(|watch| Some(watch.restarts.into()));
    Counter watch_skipped(watch) "Objects and annotations that could not be read"
        => |moment| moment.watches(|watch| Some(watch.skipped.into()));
};

const API: &[Metric] = metrics! {
    Counter api_requests() "Requests to the API server; a watch is one"
        => |moment| one(moment.status.figures.api.requests);
    Counter api_throttled_seconds() "Time that requests waited for their turn"
        => |moment| one(Value::micros(moment.status.figures.api.throttled_us));
};

const SIZES: &[Metric] = metrics! {
    Gauge pods(state) "Pods in the agent's index, by state"
        => |moment| each(moment.status.figures.pods.iter().map(|(state, n)| (state.as_str(), *n)));
    Gauge ips(state) "IPs that pods own, and of these draining and in conflict; IPs with denials"
        => |moment| each(moment.status.figures.ips.iter().map(|(state, n)| (state.as_str(), *n)));
    Gauge map_entries(map) "Entries of a map that the agent fills"
        => |moment| moment.maps(|fill| fill.entries);
    Gauge map_capacity(map) "Entries that the map has room for"
        => |moment| moment.maps(|fill| fill.capacity);
    Gauge interfaces(attached) "Interfaces with the hooks, and interfaces that lack them"
        => |moment| moment.interfaces();
};

const DURATIONS: &[Metric] = metrics! {
    Histogram propagation_seconds() "From the receipt of an API event to the map write"
        => |moment| one(&moment.status.figures.propagation);
    Histogram slice_propagation_seconds() "From the change behind an EndpointSlice's event to the map write"
        => |moment| one(&moment.status.figures.slice_propagation);
    Histogram ip_reuse_gap_seconds() "From the release of an IP to its next owner, up to 10 minutes"
        => |moment| one(&moment.status.figures.reuse_gap);
};
