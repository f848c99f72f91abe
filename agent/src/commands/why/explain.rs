//! The answer as a whole. Pure.

use super::evidence::{Event, events};
use super::owners::{Span, owners};
use super::question::Question;
use super::time::wall;
use super::verdict::{Verdict, verdicts};
use epguard_core::history::Chronicle;
use epguard_core::state::View;
use serde::Serialize;
use std::net::IpAddr;

/// What `epguard why` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The IP.
    pub ip: IpAddr,
    /// Of which moment the verdicts are, RFC 3339.
    pub at: String,
    /// Whether that is now.
    pub now: bool,
    /// The node's mode now; it is not remembered.
    pub mode: String,
    /// One per Service and port, and one for the IP itself; none if that moment is not known.
    pub verdicts: Vec<Verdict>,
    /// Who owned the IP, up to that moment.
    pub owners: Vec<Span>,
    /// What moved it, up to that moment.
    pub evidence: Vec<Event>,
    /// Since when the history of this IP is known.
    pub since: String,
    /// Whether it had earlier ones that were forgotten.
    pub truncated: bool,
}

/// Answers a question from what is kept about the IP.
#[must_use]
pub fn explain(chronicle: &Chronicle, question: &Question) -> Explanation {
    // Nobody knows the future: now is the last that is known.
    let at_ms = question
        .at
        .map_or(chronicle.now_ms, |at| at.on(chronicle))
        .min(chronicle.now_ms);
    let now = at_ms >= chronicle.now_ms;
    let view = if now {
        Some(chronicle.view.clone())
    } else {
        known_at(chronicle, at_ms)
    };
    Explanation {
        ip: chronicle.ip,
        at: wall(chronicle, at_ms),
        now,
        mode: chronicle.mode.clone(),
        verdicts: view.map(|view| verdicts(&view, question)).unwrap_or_default(),
        owners: owners(chronicle, at_ms),
        evidence: events(chronicle, at_ms),
        since: wall(chronicle, chronicle.since_ms()),
        truncated: chronicle.truncated,
    }
}

/// Before the first step of an IP nothing was known of it, unless there were steps that had to make room.
fn known_at(chronicle: &Chronicle, at_ms: u64) -> Option<View> {
    if at_ms < chronicle.since_ms() {
        return None;
    }
    let step = chronicle.steps.iter().rev().find(|step| step.at_ms <= at_ms);
    Some(step.map_or_else(
        || View {
            synced: true,
            ..View::default()
        },
        |step| step.view.clone(),
    ))
}
