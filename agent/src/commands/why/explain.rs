//! The whole answer of `epguard why`. Pure.

use super::evidence::{Event, events};
use super::owners::{Span, owners};
use super::question::Question;
use super::time::wall;
use super::verdict::{Verdict, verdicts};
use epguard_core::history::Chronicle;
use epguard_core::state::View;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The output of `epguard why`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The IP.
    pub ip: IpAddr,
    /// The moment of the verdicts, RFC 3339.
    pub at: String,
    /// Whether that moment is now.
    pub now: bool,
    /// The node's mode now; the history does not contain it.
    pub mode: String,
    /// One per Service and port, and one for the IP itself; none if that moment is not known.
    pub verdicts: Vec<Verdict>,
    /// Why packets of a Service with a denial pass all the same, now: the outcome that counts them, and the cause.
    #[serde(default)]
    pub passing: Vec<String>,
    /// The owners of the IP, up to that moment.
    pub owners: Vec<Span>,
    /// The events of the IP, up to that moment.
    pub evidence: Vec<Event>,
    /// Since when the history of this IP is known.
    pub since: String,
    /// Whether the history dropped earlier steps.
    pub truncated: bool,
}

/// Answers a question from the history of the IP.
#[must_use]
pub fn explain(chronicle: &Chronicle, question: &Question) -> Explanation {
    // A time in the future counts as now.
    let at_ms = question.at.map_or(u64::MAX, |at| at.on(chronicle));
    let at_ms = at_ms.min(chronicle.now_ms);
    let now = at_ms == chronicle.now_ms;
    let view = if now { Some(chronicle.view.clone()) } else { known_at(chronicle, at_ms) };
    Explanation {
        ip: chronicle.ip,
        at: wall(chronicle, at_ms),
        now,
        mode: chronicle.mode.clone(),
        verdicts: view.map(|view| verdicts(&view, question)).unwrap_or_default(),
        passing: Vec::new(),
        owners: owners(chronicle, at_ms),
        evidence: events(chronicle, at_ms),
        since: wall(chronicle, chronicle.since_ms()),
        truncated: chronicle.truncated,
    }
}

/// The view at a time. Before the first step the IP had no facts; none if earlier steps had to make room.
fn known_at(chronicle: &Chronicle, at_ms: u64) -> Option<View> {
    if at_ms < chronicle.since_ms() {
        return None;
    }
    let step = chronicle.steps.iter().rev().find(|step| step.at_ms <= at_ms);
    let nothing = View { synced: true, ..View::default() };
    Some(step.map_or(nothing, |step| step.view.clone()))
}
