//! The whole answer of `epguard why`, and its text: verdict first, then owners, then evidence.
//! Pure.

use super::evidence::{Event, events};
use super::owners::{Span, owners};
use super::question::{Question, wall};
use super::verdict::{Verdict, verdicts};
use crate::commands::status::gap;
use crate::shared::output::after;
use crate::shared::status::{Gap, Translators};
use epguard_core::history::Chronicle;
use epguard_core::state::View;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

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
    /// Why packets of a Service with a denial pass all the same, now: the outcome that counts them,
    /// and the cause.
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
pub fn explain(chronicle: &Chronicle, question: &Question) -> Explanation {
    // A time in the future counts as now.
    let at_ms = question.at.map_or(u64::MAX, |at| at.on(chronicle));
    let at_ms = at_ms.min(chronicle.now_ms);
    let now = at_ms == chronicle.now_ms;
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
        verdicts: view
            .map(|view| verdicts(&view, question))
            .unwrap_or_default(),
        passing: Vec::new(),
        owners: owners(chronicle, at_ms),
        evidence: events(chronicle, at_ms),
        since: wall(chronicle, chronicle.since_ms()),
        truncated: chronicle.truncated,
    }
}

/// The view at a time. Before the first step the IP had no facts; none if earlier steps had to make
/// room.
fn known_at(chronicle: &Chronicle, at_ms: u64) -> Option<View> {
    if at_ms < chronicle.since_ms() {
        return None;
    }
    let step = chronicle
        .steps
        .iter()
        .rev()
        .find(|step| step.at_ms <= at_ms);
    let nothing = View {
        synced: true,
        ..View::default()
    };
    Some(step.map_or(nothing, |step| step.view.clone()))
}

/// Why packets of a Service with a denial pass all the same, as no translator shows the Service
/// that they are aimed at: a line for each cause; none if no Service has a denial in this answer,
/// or if it is about an earlier time.
pub(super) fn passing(explanation: &Explanation, translators: &Translators) -> Vec<String> {
    let mut verdicts = explanation.verdicts.iter();
    let is_denied = verdicts.any(|verdict| verdict.service.is_some() && verdict.verdict != "pass");
    if !explanation.now || !is_denied {
        return Vec::new();
    }
    let line = |one: &Gap| format!("{}: {}", one.cause.outcome(), gap(one).what);
    translators.gaps.iter().map(line).collect()
}

impl Explanation {
    /// The whole answer as text.
    pub fn text(&self) -> String {
        let when = if self.now { " (now)" } else { "" };
        let mut text = format!("{} at {}{when}, mode {} now\n", self.ip, self.at, self.mode);
        if self.verdicts.is_empty() {
            let _ = writeln!(text, "\nVERDICT unknown: {}", self.no_verdict());
        }
        for verdict in &self.verdicts {
            let _ = writeln!(text, "\nVERDICT {}", self.verdict(verdict));
            let _ = writeln!(text, "  because: {}", verdict.because);
            let _ = writeln!(text, "  what would change it: {}", verdict.change);
        }
        if !self.passing.is_empty() {
            let _ = writeln!(text, "\nPASSING all the same");
        }
        for passing in &self.passing {
            let _ = writeln!(text, "  {passing}");
        }
        let none = self
            .owners
            .is_empty()
            .then_some(": none that the API showed");
        let _ = writeln!(text, "\nOWNERS{}", none.unwrap_or_default());
        for span in &self.owners {
            let _ = writeln!(text, "  {}", owner(span, self.now));
        }
        let truncated = self.truncated.then_some("; earlier events were dropped");
        let truncated = truncated.unwrap_or_default();
        let _ = writeln!(text, "\nEVIDENCE since {}{truncated}", self.since);
        for event in &self.evidence {
            let _ = writeln!(text, "  {}  {}", event.at, event.what);
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn no_verdict(&self) -> String {
        if self.at < self.since {
            format!("the agent's history of this IP begins at {}", self.since)
        } else {
            "no matching Service lists it on that port, or did in the last 10 minutes".to_owned()
        }
    }

    fn verdict(&self, verdict: &Verdict) -> String {
        let endpoint = match verdict.port {
            Some(port) => SocketAddr::new(self.ip, port).to_string(),
            None => self.ip.to_string(),
        };
        let aim = match &verdict.service {
            Some(service) => format!(
                "{service} -> {endpoint}{}",
                after(" ", verdict.protocol.as_ref())
            ),
            None => format!("{endpoint} itself"),
        };
        let reason = verdict.reason.as_ref().map(|reason| format!(" ({reason})"));
        format!("{aim}: {}{}", verdict.verdict, reason.unwrap_or_default())
    }
}

fn owner(span: &Span, now: bool) -> String {
    let Span { pod, uid, from, .. } = span;
    let earlier = if span.or_earlier { " or earlier" } else { "" };
    let to = span
        .to
        .as_deref()
        .unwrap_or(if now { "now" } else { "then" });
    let ended = after(", ", span.ended.as_ref());
    let node = after(" on ", span.node.as_ref());
    format!("{from}{earlier} to {to}{ended}: {pod} ({uid}){node}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::Cause;
    use std::net::Ipv4Addr;

    fn answer(verdict: &'static str, service: Option<&str>, now: bool) -> Explanation {
        Explanation {
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            at: String::new(),
            now,
            mode: "enforce".into(),
            verdicts: vec![Verdict {
                service: service.map(Into::into),
                verdict: verdict.into(),
                reason: Some("reused".into()),
                ..Verdict::default()
            }],
            passing: Vec::new(),
            owners: Vec::new(),
            evidence: Vec::new(),
            since: String::new(),
            truncated: false,
        }
    }

    #[test]
    fn packets_without_a_readable_record_are_named_beside_a_denial_of_a_service() {
        let gaps = [
            (Cause::Flowtable, "ip web/f"),
            (Cause::Unreadable, "7 packets"),
        ];
        let translators = Translators {
            gaps: gaps
                .map(|(cause, detail)| Gap {
                    cause,
                    detail: detail.into(),
                })
                .into(),
            ..Translators::default()
        };
        let mut denied = answer("deny", Some("shop/web"), true);
        denied.passing = passing(&denied, &translators);
        assert_eq!(
            denied.passing,
            [
                "no-connection: packets that the flowtable ip web/f of nftables forwards show no Service",
                "unreadable-connection: 7 packets to suspects passed, as their conntrack entries contradict them"
            ]
        );
        let text = denied.text();
        assert!(
            text.contains("\nPASSING all the same\n  no-connection: "),
            "{text}"
        );
        for (verdict, service, now) in [
            ("pass", Some("shop/web"), true),
            ("deny", None, true),
            ("deny", Some("shop/web"), false),
        ] {
            assert_eq!(
                passing(&answer(verdict, service, now), &translators),
                [""; 0]
            );
        }
        let known = Translators::default();
        assert_eq!(
            passing(&answer("stopped", Some("shop/web"), true), &known),
            [""; 0]
        );
    }
}
