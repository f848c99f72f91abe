//! Metrics of packets, as the kernel counts them.

use crate::daemon::report::metrics::family::{Families, Labels};
use crate::kernel::maps::Counters;
use epguard_common::{Count, Mode, Outcome, Reason};
use std::fmt;

/// What was done with denied packets, as values of the labels `action` and `mode`.
const DENIALS: [(Outcome, &str, Mode); 5] = [
    (Outcome::Dropped, "drop", Mode::Enforce),
    (Outcome::Rejected, "reject", Mode::Enforce),
    (Outcome::Redirected, "redirect", Mode::Enforce),
    (Outcome::Captured, "capture", Mode::Enforce),
    (Outcome::Observed, "pass", Mode::Observe),
];

/// The other counters, with name and help.
const NEWS: [(Outcome, &str, &str); 7] = [
    (
        Outcome::EventLost,
        "events_lost",
        "Denials that the ring buffer had no room to report",
    ),
    (
        Outcome::EventSuppressed,
        "events_suppressed",
        "Denials beyond the rate at which one suspect is reported",
    ),
    (
        Outcome::AnswerSuppressed,
        "answers_suppressed",
        "Denied packets that were dropped, since a rate limit left no answer",
    ),
    (
        Outcome::AnswerFailed,
        "answers_failed",
        "Denied packets that were dropped, since the answer could not be sent",
    ),
    (
        Outcome::RedirectFailed,
        "redirects_failed",
        "Packets of steered flows that were dropped, since they could not be sent to the endpoint",
    ),
    (
        Outcome::BeyondShare,
        "redirects_beyond_share",
        "Redirected connections beyond their client's share of FLOWS, which a flood may reset",
    ),
    (
        Outcome::RedirectRefused,
        "redirects_refused",
        "Packets of flows that were rejected, since redirecting them could have reset another connection",
    ),
];

/// Writes the families of the kernel's counters.
pub fn packets(to: &mut Families<'_>, counters: &Counters) -> fmt::Result {
    let count = |reason, outcome| counters.get(&(reason, outcome)).copied().unwrap_or_default();
    let denied = |of: fn(Count) -> u64| {
        let reasons = Reason::ALL
            .into_iter()
            .filter(|reason| *reason != Reason::Nothing);
        reasons.flat_map(move |reason| {
            DENIALS.map(|(outcome, action, mode)| {
                let labels: Labels<'_> = vec![
                    ("reason", reason.as_str()),
                    ("action", action),
                    ("mode", mode.as_str()),
                ];
                (labels, of(count(reason, outcome)))
            })
        })
    };
    let passed = |of: fn(Count) -> u64| {
        let others = counters.iter().filter(|((_, outcome), count)| {
            count.packets > 0
                && !Outcome::NEWS.contains(outcome)
                && !DENIALS.iter().any(|(denial, ..)| denial == outcome)
        });
        others.map(move |((reason, outcome), count)| {
            let labels: Labels<'_> = vec![("reason", reason.as_str()), ("outcome", outcome.as_str())];
            (labels, of(*count))
        })
    };
    to.counters(
        (
            "denied_packets",
            "Packets denied, and in observe packets that would have been",
        ),
        denied(|count| count.packets),
    )?;
    to.counters(
        ("denied_bytes", "Bytes of these packets, with link-layer headers"),
        denied(|count| count.bytes),
    )?;
    to.counters(
        (
            "denied_openings",
            "Of these packets those that open a connection (TCP SYN, SCTP INIT)",
        ),
        denied(|count| count.openings),
    )?;
    to.counters(
        ("passed_packets", "Packets to suspect IPs that passed"),
        passed(|count| count.packets),
    )?;
    to.counters(
        ("passed_bytes", "Bytes of these packets, with link-layer headers"),
        passed(|count| count.bytes),
    )?;
    NEWS.into_iter().try_for_each(|(outcome, name, help)| {
        let all = Reason::ALL.into_iter();
        let sum: u64 = all.map(|reason| count(reason, outcome).packets).sum();
        to.counters((name, help), [(vec![], sum)])
    })
}
