//! What happened to packets, as the kernel counts it.

use crate::maps::Counters;
use crate::metrics::family::{Families, Labels};
use epguard_common::{Count, Mode, Outcome, Reason};
use std::fmt;

/// What was done to packets, in the words of the labels `action` and `mode`.
const DENIALS: [(Outcome, &str, Mode); 5] = [
    (Outcome::Dropped, "drop", Mode::Enforce),
    (Outcome::Rejected, "reject", Mode::Enforce),
    (Outcome::Redirected, "redirect", Mode::Enforce),
    (Outcome::Captured, "capture", Mode::Enforce),
    (Outcome::Observed, "pass", Mode::Observe),
];

/// Families of the kernel's counters.
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
    let events = |outcome| {
        let all = Reason::ALL.into_iter();
        [(
            vec![],
            all.map(|reason| count(reason, outcome).packets).sum::<u64>(),
        )]
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
        ("passed_packets", "Packets to suspect IPs that passed"),
        passed(|count| count.packets),
    )?;
    to.counters(
        ("passed_bytes", "Bytes of these packets, with link-layer headers"),
        passed(|count| count.bytes),
    )?;
    to.counters(
        (
            "events_lost",
            "Denials that the ring buffer had no room to report",
        ),
        events(Outcome::EventLost),
    )?;
    to.counters(
        (
            "events_suppressed",
            "Denials beyond the rate at which one suspect is reported",
        ),
        events(Outcome::EventSuppressed),
    )?;
    to.counters(
        (
            "answers_suppressed",
            "Denied packets that were dropped, since a rate limit left no answer",
        ),
        events(Outcome::AnswerSuppressed),
    )?;
    to.counters(
        (
            "answers_failed",
            "Denied packets that were dropped, since the answer could not be sent",
        ),
        events(Outcome::AnswerFailed),
    )?;
    to.counters(
        (
            "redirects_failed",
            "Packets of steered flows that were dropped, since they could not be sent to the endpoint",
        ),
        events(Outcome::RedirectFailed),
    )
}
