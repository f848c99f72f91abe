//! All findings, as a document and for people.

use super::finding::{Finding, Kind, State};
use comfy_table::{Table, presets::NOTHING};
use serde::Serialize;

/// What `epguard audit` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the Node.
    pub node: String,
    /// Endpoints whose pods have ended, as the agent knows; what was compared with.
    pub endpoints: usize,
    /// Flows compared; none if they could not be read.
    pub flows: Option<usize>,
    /// Rules compared; none if they could not be read.
    pub rules: Option<usize>,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What was not looked at, why, and what helps.
    pub not_looked_at: Vec<String>,
}

impl Report {
    /// How many findings are so.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.state == state).count()
    }

    /// For people: in words, then one row per finding.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts = vec![self.summary()];
        if !self.findings.is_empty() {
            parts.push(table(&self.findings));
        }
        if !self.not_looked_at.is_empty() {
            let lines = self.not_looked_at.iter();
            let lines = lines.map(|what| format!("not looked at: {what}"));
            parts.push(lines.collect::<Vec<_>>().join("\n"));
        }
        parts.join("\n\n")
    }

    fn summary(&self) -> String {
        let kind = |kind: Kind| {
            let findings = self.findings.iter();
            let stale = findings.filter(|finding| finding.state == State::Stale && finding.kind == kind);
            stale.count()
        };
        let stale = match (kind(Kind::Conntrack), kind(Kind::NftablesRule)) {
            (0, 0) => "nothing is stale".to_owned(),
            (flows, 0) => format!("stale: {flows} flows"),
            (0, rules) => format!("stale: {rules} rules"),
            (flows, rules) => format!("stale: {flows} flows and {rules} rules"),
        };
        let others = [State::AllowedToEnd, State::Held].map(|state| match self.count(state) {
            0 => String::new(),
            count => format!(", {count} {}", state.as_str()),
        });
        let read = [(self.flows, "flows"), (self.rules, "rules")].map(|(count, what)| match count {
            Some(count) => format!("{count} {what}"),
            None => format!("no {what}"),
        });
        format!(
            "{}: {stale}{}; compared {} with {} endpoints whose pods have ended",
            self.node,
            others.concat(),
            read.join(" and "),
            self.endpoints
        )
    }
}

fn table(findings: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header([
        "STATE", "KIND", "SERVICE", "ENDPOINT", "MEANT", "HIT", "REASON", "SINCE", "PACKETS", "WHERE",
    ]);
    table.add_rows(findings.iter().map(|finding| {
        let since = finding.since.as_ref().map_or("unknown".to_owned(), |since| {
            let earlier = if since.or_earlier { " or earlier" } else { "" };
            format!("{}{earlier}", since.at)
        });
        let packets = finding.packets.map(|packets| packets.to_string());
        vec![
            finding.state.as_str().to_owned(),
            finding.kind.as_str().to_owned(),
            finding.service.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{} {}", finding.endpoint, finding.protocol),
            finding.meant.clone(),
            finding.hit.clone().unwrap_or_else(|| "nobody".to_owned()),
            finding.reason.to_owned(),
            since,
            packets.unwrap_or_else(|| "not counted".to_owned()),
            finding.at.clone(),
        ]
    }));
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::super::since::Since;
    use super::*;
    use epguard_common::Uid;

    fn finding(state: State, kind: Kind) -> Finding {
        Finding {
            state,
            kind,
            service: Some("shop/web".into()),
            endpoint: "10.244.1.10:8080".parse().unwrap(),
            protocol: "TCP",
            meant: "shop/a".into(),
            hit: None,
            reason: "dead-backend",
            since: None,
            packets: None,
            at: "ip kube-proxy services".into(),
            dead: Uid::NONE,
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        Report {
            node: "n".into(),
            endpoints: 1,
            flows: Some(4),
            rules: Some(2),
            findings,
            not_looked_at: vec![],
        }
    }

    #[test]
    fn what_is_fine_is_one_line() {
        assert_eq!(
            report(vec![]).text(),
            "n: nothing is stale; compared 4 flows and 2 rules with 1 endpoints whose pods have ended"
        );
    }

    #[test]
    fn each_finding_is_one_row_under_what_they_come_to() {
        let flow = Finding {
            hit: Some("team-b/b".into()),
            since: Some(Since {
                at: "1970-01-01T00:00:01.000Z".into(),
                or_earlier: true,
            }),
            packets: Some(7),
            at: "10.244.1.5:40000 -> 10.96.0.1:80".into(),
            ..finding(State::Stale, Kind::Conntrack)
        };
        let rule = finding(State::AllowedToEnd, Kind::NftablesRule);
        let mut report = report(vec![flow, rule]);
        report.rules = None;
        report.not_looked_at.push("rules: no right".into());
        let text = report.text();
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "n: stale: 1 flows, 1 allowed to end; compared 4 flows and no rules with 1 endpoints whose pods have ended",
                "",
                "STATE KIND SERVICE ENDPOINT MEANT HIT REASON SINCE PACKETS WHERE",
                "stale conntrack shop/web 10.244.1.10:8080 TCP shop/a team-b/b dead-backend 1970-01-01T00:00:01.000Z \
                 or earlier 7 10.244.1.5:40000 -> 10.96.0.1:80",
                "allowed to end nftables rule shop/web 10.244.1.10:8080 TCP shop/a nobody dead-backend unknown \
                 not counted ip kube-proxy services",
                "",
                "not looked at: rules: no right",
            ]
        );
    }

    #[test]
    fn a_document_says_the_same() {
        let document =
            serde_json::to_value(report(vec![finding(State::AllowedToEnd, Kind::NftablesRule)])).unwrap();
        let finding = &document["findings"][0];
        assert_eq!(
            (&finding["state"], &finding["kind"]),
            (&"allowed-to-end".into(), &"nftables-rule".into())
        );
        assert!(finding["packets"].is_null() && finding.get("dead").is_none());
        assert_eq!(document["notLookedAt"], serde_json::json!([]));
    }
}
