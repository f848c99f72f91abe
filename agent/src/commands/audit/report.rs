//! All findings, as a document and for people.

use super::finding::{Finding, State};
use crate::shared::output::table;
use crate::shared::status::lenient;
use serde::{Deserialize, Serialize};

/// The output of `epguard audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the Node.
    pub node: String,
    /// Endpoints of ended pods that the agent denies; flows are compared with them.
    pub endpoints: usize,
    /// Flows compared; none if they could not be read.
    pub flows: Option<usize>,
    /// The worst first.
    #[serde(deserialize_with = "lenient::items")]
    pub findings: Vec<Finding>,
    /// What was not read, with cause and remedy.
    pub not_looked_at: Vec<String>,
}

impl Report {
    /// How many flows are in that state.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        let findings = self.findings.iter();
        let wanted = findings.filter(|finding| finding.state == state);
        wanted.map(|finding| finding.count).sum()
    }

    /// For people: a summary, then one row per finding.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts = vec![self.summary()];
        if !self.findings.is_empty() {
            parts.push(rows(&self.findings));
        }
        if !self.not_looked_at.is_empty() {
            let lines = self.not_looked_at.iter();
            let lines = lines.map(|what| format!("not read: {what}"));
            parts.push(lines.collect::<Vec<_>>().join("\n"));
        }
        parts.join("\n\n")
    }

    fn summary(&self) -> String {
        let stale = match self.count(State::Stale) {
            0 => "nothing is stale".to_owned(),
            count => format!("stale: {count} flows"),
        };
        let others = [State::AllowedToEnd, State::Held].map(|state| match self.count(state) {
            0 => String::new(),
            count => format!(", {count} {state}"),
        });
        let compared = self.flows.map_or("no".to_owned(), |flows| flows.to_string());
        format!(
            "{}: {stale}{}; compared {compared} flows with {} endpoints whose pods have ended",
            self.node,
            others.concat(),
            self.endpoints
        )
    }
}

fn rows(findings: &[Finding]) -> String {
    const HEADER: [&str; 11] = [
        "STATE",
        "CONNECTION",
        "FLOWS",
        "SERVICE",
        "ENDPOINT",
        "MEANT",
        "HIT",
        "REASON",
        "SINCE",
        "PACKETS",
        "FIRST",
    ];
    let rows = findings.iter().map(|finding| {
        let since = finding.since.as_ref().map_or("unknown".to_owned(), |since| {
            let earlier = if since.or_earlier { " or earlier" } else { "" };
            format!("{}{earlier}", since.at)
        });
        let packets = finding.packets.map(|packets| packets.to_string());
        vec![
            finding.state.to_string(),
            finding.connection.as_deref().unwrap_or("-").to_owned(),
            finding.count.to_string(),
            service(finding),
            format!("{} {}", finding.endpoint, finding.protocol),
            finding.meant.clone(),
            finding.hit.clone().unwrap_or_else(|| "nobody".to_owned()),
            finding.reason.to_string(),
            since,
            packets.unwrap_or_else(|| "not counted".to_owned()),
            finding.at.clone(),
        ]
    });
    table(&HEADER, rows)
}

/// `namespace/name:port`
fn service(finding: &Finding) -> String {
    match (&finding.service, finding.port) {
        (Some(service), Some(port)) => format!("{service}:{port}"),
        (Some(service), None) => service.clone(),
        (None, _) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::since::Since;
    use super::*;

    fn finding(state: State) -> Finding {
        Finding {
            state,
            packets: None,
            connection: None,
            ..super::super::finding::tests::flow()
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        Report {
            node: "n".into(),
            endpoints: 1,
            flows: Some(4),
            findings,
            not_looked_at: vec![],
        }
    }

    #[test]
    fn a_clean_report_is_one_line() {
        assert_eq!(
            report(vec![]).text(),
            "n: nothing is stale; compared 4 flows with 1 endpoints whose pods have ended"
        );
    }

    #[test]
    fn each_finding_is_one_row_below_the_summary() {
        let stale = Finding {
            hit: Some("team-b/b".into()),
            since: Some(Since {
                at: "1970-01-01T00:00:01.000Z".into(),
                or_earlier: true,
            }),
            packets: Some(7),
            connection: Some("SYN_SENT".into()),
            count: 193,
            ..finding(State::Stale)
        };
        let mut report = report(vec![stale, finding(State::AllowedToEnd)]);
        report.flows = None;
        report.not_looked_at.push("conntrack: no right".into());
        let text = report.text();
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "n: stale: 193 flows, 1 allowed to end; compared no flows with 1 endpoints whose pods have ended",
                "",
                "STATE CONNECTION FLOWS SERVICE ENDPOINT MEANT HIT REASON SINCE PACKETS FIRST",
                "stale SYN_SENT 193 shop/web:80 10.244.1.10:8080 TCP shop/a team-b/b dead-backend 1970-01-01T00:00:01.000Z \
                 or earlier 7 10.244.1.5:40000 -> 10.96.0.1:80",
                "allowed to end - 1 shop/web:80 10.244.1.10:8080 TCP shop/a nobody dead-backend unknown \
                 not counted 10.244.1.5:40000 -> 10.96.0.1:80",
                "",
                "not read: conntrack: no right",
            ]
        );
    }

    #[test]
    fn the_json_document_has_the_same_findings() {
        let document = serde_json::to_value(report(vec![finding(State::AllowedToEnd)])).unwrap();
        let finding = &document["findings"][0];
        assert_eq!(finding["state"], "allowed-to-end");
        assert!(finding["packets"].is_null() && finding.get("dead").is_none());
        assert_eq!(document["notLookedAt"], serde_json::json!([]));
    }
}
