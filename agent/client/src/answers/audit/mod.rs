//! The flows of a node that still lead to pods that have ended.

mod finding;

pub use finding::{AuditFinding, FlowState};

use crate::shared::cards::columned_or_cards;
use crate::shared::drops::NOBODY;
use crate::shared::output::{Column, count};
use crate::shared::screen::Screen;
use serde::{Deserialize, Serialize};

/// Exit codes: 0 if nothing is stale, 1 if anything is, 2 if not everything could be read.
const FOUND: u8 = 1;
const FAILED: u8 = 2;

/// The output of `epguard audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// Name of the Node.
    pub node: String,
    /// Endpoints of ended pods that the agent denies; flows are compared with them.
    pub endpoints: usize,
    /// Flows compared; none if they could not be read.
    pub flows: Option<usize>,
    /// The worst first.
    pub findings: Vec<AuditFinding>,
    /// What was not read, with cause and remedy.
    pub not_looked_at: Vec<String>,
}

impl AuditReport {
    /// How many flows are in that state.
    fn count_flows(&self, state: FlowState) -> usize {
        let findings = self.findings.iter();
        let wanted = findings.filter(|finding| finding.state == state);
        wanted.map(|finding| finding.count).sum()
    }

    /// The exit code of the verb.
    pub fn exit_code(&self) -> u8 {
        if self.count_flows(FlowState::Stale) > 0 {
            FOUND
        } else if self.not_looked_at.is_empty() {
            0
        } else {
            FAILED
        }
    }

    /// For people: a summary, then a row or a card for each finding.
    pub fn to_text(&self, screen: Screen) -> String {
        let unknown = self.count_flows(FlowState::Unknown);
        let stale = match self.count_flows(FlowState::Stale) {
            0 if unknown == 0 => "nothing is stale".to_owned(),
            0 => format!("{} in a state of another version", count(unknown, "flow")),
            flows => format!("stale: {}", count(flows, "flow")),
        };
        let ending = match self.count_flows(FlowState::AllowedToEnd) {
            0 => String::new(),
            flows => format!(", {flows} {}", FlowState::AllowedToEnd),
        };
        let compared = self
            .flows
            .map_or("no flows".to_owned(), |flows| count(flows, "flow"));
        let summary = format!(
            "{}: {stale}{ending}; compared {compared} with {} whose pods have ended",
            self.node,
            count(self.endpoints, "endpoint")
        );
        let mut parts = vec![screen.fold(&summary)];
        if !self.findings.is_empty() {
            parts.push(columned_or_cards(screen, &COLUMNS, &self.findings));
        }
        if !self.not_looked_at.is_empty() {
            let lines: Vec<String> = self
                .not_looked_at
                .iter()
                .map(|what| format!("not read: {what}"))
                .collect();
            parts.push(screen.fold(&lines.join("\n")));
        }
        parts.join("\n\n")
    }
}

const COLUMNS: [Column<AuditFinding>; 9] = [
    ("STATE", |finding| finding.state.to_string()),
    ("CONNECTION", |finding| {
        finding.connection.as_deref().unwrap_or("-").to_owned()
    }),
    ("FLOWS", |finding| finding.count.to_string()),
    ("SERVICE", |finding| {
        finding.service.as_deref().unwrap_or("-").to_owned()
    }),
    ("ENDPOINT", |finding| {
        format!("{} {}", finding.endpoint, finding.protocol)
    }),
    ("MEANT", |finding| finding.meant.clone()),
    ("HIT", |finding| {
        finding.hit.as_deref().unwrap_or(NOBODY).to_owned()
    }),
    ("REASON", |finding| finding.reason.to_string()),
    ("FIRST", |finding| finding.at.clone()),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::screen::{TESTED, assert_fits};

    fn stale_flow() -> AuditFinding {
        AuditFinding {
            state: FlowState::Stale,
            service: Some("shop/web:80".into()),
            endpoint: "10.244.1.10:8080".parse().unwrap(),
            protocol: "TCP".into(),
            meant: "shop/a".into(),
            hit: None,
            reason: "dead-backend".into(),
            connection: Some("SYN_SENT".into()),
            count: 1,
            at: "10.244.1.5:40000 -> 10.96.0.1:80".into(),
        }
    }

    fn report() -> AuditReport {
        let (findings, not_looked_at) = (vec![], vec![]);
        AuditReport {
            node: "n".into(),
            endpoints: 1,
            flows: Some(4),
            findings,
            not_looked_at,
        }
    }

    #[test]
    fn only_stale_findings_fail_and_an_unread_table_is_never_called_clean() {
        let finding = |state| AuditFinding {
            state,
            ..stale_flow()
        };
        let mut report = AuditReport {
            findings: vec![finding(FlowState::AllowedToEnd)],
            ..report()
        };
        assert_eq!(report.exit_code(), 0);
        report.not_looked_at.push("conntrack".into());
        assert_eq!(report.exit_code(), FAILED);
        report.findings.push(finding(FlowState::Stale));
        assert_eq!(report.exit_code(), FOUND);
    }

    #[test]
    fn each_finding_is_one_row_below_the_summary() {
        let stale = AuditFinding {
            hit: Some("team-b/b".into()),
            count: 193,
            ..stale_flow()
        };
        let ending = AuditFinding {
            state: FlowState::AllowedToEnd,
            connection: None,
            ..stale_flow()
        };
        let mut report = report();
        let clean = "n: nothing is stale; compared 4 flows with 1 endpoint whose pods have ended";
        assert_eq!(report.to_text(Screen::default()), clean);
        report.flows = None;
        report.findings = vec![stale, ending];
        report.not_looked_at.push("conntrack: no right".into());
        let text = report.to_text(Screen::default());
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        assert_eq!(
            lines,
            [
                "n: stale: 193 flows, 1 allowed to end; compared no flows with 1 endpoint whose pods have ended",
                "",
                "STATE CONNECTION FLOWS SERVICE ENDPOINT MEANT HIT REASON FIRST",
                "stale SYN_SENT 193 shop/web:80 10.244.1.10:8080 TCP shop/a team-b/b dead-backend \
                 10.244.1.5:40000 -> 10.96.0.1:80",
                "allowed to end - 1 shop/web:80 10.244.1.10:8080 TCP shop/a nobody dead-backend \
                 10.244.1.5:40000 -> 10.96.0.1:80",
                "",
                "not read: conntrack: no right",
            ]
        );
        let document = serde_json::to_value(report).unwrap();
        assert_eq!(document["findings"][1]["state"], "allowed-to-end");
        assert!(document["findings"][1]["connection"].is_null());
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let stale = AuditFinding {
            service: Some("shop/web-frontend:80".into()),
            meant: "shop/web-frontend-5d4f8c7b9d-x2x4z".into(),
            hit: Some("payments/api-gateway-7c9f8d6b5-abcde".into()),
            ..stale_flow()
        };
        let report = AuditReport {
            node: "ip-10-0-131-7.eu-west-1.compute.internal".into(),
            findings: vec![stale.clone(), stale],
            not_looked_at: vec!["conntrack: no right: run this as root".into()],
            ..report()
        };
        let shown = |width| {
            let width = Some(width);
            report.to_text(Screen { width, full: false })
        };
        for width in TESTED {
            let text = shown(width);
            let width = Some(width);
            assert_fits(&text, Screen { width, full: false });
            assert_eq!(text.matches("MEANT").count(), 2, "a card each: {text}");
        }
        assert_eq!(shown(300).matches("MEANT").count(), 1);
    }
}
