//! The whole answer of `epguard why`. Pure.

use super::evidence::{EvidenceEvent, evidence_until};
use super::owners::{OwnerSpan, owners_until};
use super::question::{WhyQuestion, wall_time};
use super::verdict::verdicts_of;
use super::why_verdict::WhyVerdict;
use crate::answers::status::gap_problem;
use crate::shared::status::Translators;
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
    pub verdicts: Vec<WhyVerdict>,
    /// Why packets of a Service with a denial pass all the same, now: the outcome that counts them,
    /// and the cause.
    #[serde(default)]
    pub passing: Vec<String>,
    /// The owners of the IP, up to that moment.
    pub owners: Vec<OwnerSpan>,
    /// The events of the IP, up to that moment.
    pub evidence: Vec<EvidenceEvent>,
    /// Since when the history of this IP is known.
    pub since: String,
    /// Whether the history dropped earlier steps.
    pub truncated: bool,
}

/// Answers a question from the history of the IP.
pub fn explain(chronicle: &Chronicle, question: &WhyQuestion) -> Explanation {
    let at_ms = match question.at {
        // A time in the future counts as now.
        Some(moment) => moment.on_clock_of(chronicle).min(chronicle.now_ms),
        None => chronicle.now_ms,
    };
    let now = at_ms == chronicle.now_ms;
    let view = if now {
        Some(chronicle.view.clone())
    } else {
        view_at(chronicle, at_ms)
    };
    Explanation {
        ip: chronicle.ip,
        at: wall_time(chronicle, at_ms),
        now,
        mode: chronicle.mode.clone(),
        verdicts: view
            .map(|view| verdicts_of(&view, question))
            .unwrap_or_default(),
        passing: Vec::new(),
        owners: owners_until(chronicle, at_ms),
        evidence: evidence_until(chronicle, at_ms),
        since: wall_time(chronicle, chronicle.since_ms()),
        truncated: chronicle.truncated,
    }
}

/// The view at a time. Before the first step the IP had no facts; none if earlier steps had to make
/// room.
fn view_at(chronicle: &Chronicle, at_ms: u64) -> Option<View> {
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
pub fn causes_of_passing(explanation: &Explanation, translators: &Translators) -> Vec<String> {
    let mut verdicts = explanation.verdicts.iter();
    let is_denied = verdicts.any(|verdict| verdict.service.is_some() && verdict.verdict != "pass");
    if !explanation.now || !is_denied {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for gap in &translators.gaps {
        lines.push(format!(
            "{}: {}",
            gap.cause.outcome(),
            gap_problem(gap).what
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::screen::Screen;
    use crate::shared::status::{Cause, Gap};
    use std::net::Ipv4Addr;

    fn answer(verdict: &'static str, service: Option<&str>, now: bool) -> Explanation {
        Explanation {
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            at: String::new(),
            now,
            mode: "enforce".into(),
            verdicts: vec![WhyVerdict {
                service: service.map(Into::into),
                verdict: verdict.into(),
                reason: Some("reused".into()),
                ..WhyVerdict::default()
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
        denied.passing = causes_of_passing(&denied, &translators);
        assert_eq!(
            denied.passing,
            [
                "no-connection: packets that the flowtable ip web/f of nftables forwards show no Service",
                "unreadable-connection: 7 packets to suspects passed, as their conntrack entries contradict them"
            ]
        );
        let text = denied.to_text(Screen::default());
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
                causes_of_passing(&answer(verdict, service, now), &translators),
                [""; 0]
            );
        }
        let known = Translators::default();
        assert_eq!(
            causes_of_passing(&answer("stopped", Some("shop/web"), true), &known),
            [""; 0]
        );
    }
}
