//! All findings, as a document and for people.

use super::finding::{Finding, Kind, State};
use crate::shared::output::{listed, table};
use crate::shared::status::lenient;
use serde::{Deserialize, Serialize};

/// The output of `epguard audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the Node.
    pub node: String,
    /// Endpoints of ended pods that the agent denies; flows and rules are compared with them.
    pub endpoints: usize,
    /// Flows compared; none if they could not be read.
    pub flows: Option<usize>,
    /// Rules compared; none if those of nftables could not be read.
    pub rules: Option<usize>,
    /// Destinations of IPVS compared; none where IPVS is not in use, or could not be read.
    pub destinations: Option<usize>,
    /// The worst first.
    #[serde(deserialize_with = "lenient::items")]
    pub findings: Vec<Finding>,
    /// Sources that were not read, with cause and remedy.
    pub not_looked_at: Vec<String>,
}

impl Report {
    /// How many flows, rules and destinations are in that state.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.count_of(state, |_| true)
    }

    fn count_of(&self, state: State, is_wanted: impl Fn(Kind) -> bool) -> usize {
        let findings = self.findings.iter();
        let wanted = findings.filter(|finding| finding.state == state && is_wanted(finding.kind));
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
        let compared = [
            (Kind::Conntrack, self.flows),
            (Kind::NftablesRule, self.rules),
            (Kind::IpvsDestination, self.destinations),
        ]
        .map(|(kind, read)| (kind.source().counted, read));
        let stale = compared.iter().filter_map(|(counted, _)| {
            let count = self.count_of(State::Stale, |kind| kind.source().counted == *counted);
            (count > 0).then(|| format!("{count} {counted}"))
        });
        let stale = match listed(&stale.collect::<Vec<_>>()) {
            some if some.is_empty() => "nothing is stale".to_owned(),
            some => format!("stale: {some}"),
        };
        let others = [State::AllowedToEnd, State::Held].map(|state| match self.count(state) {
            0 => String::new(),
            count => format!(", {count} {state}"),
        });
        let read = compared.iter().filter_map(|(counted, read)| match read {
            Some(count) => Some(format!("{count} {counted}")),
            // IPVS is often not in use.
            None if *counted == Kind::IpvsDestination.source().counted => None,
            None => Some(format!("no {counted}")),
        });
        let read: Vec<String> = read.collect();
        format!(
            "{}: {stale}{}; compared {} with {} endpoints whose pods have ended",
            self.node,
            others.concat(),
            listed(&read),
            self.endpoints
        )
    }
}

fn rows(findings: &[Finding]) -> String {
    const HEADER: [&str; 11] = [
        "STATE", "KIND", "FLOWS", "SERVICE", "ENDPOINT", "MEANT", "HIT", "REASON", "SINCE", "PACKETS",
        "WHERE",
    ];
    let rows = findings.iter().map(|finding| {
        let since = finding.since.as_ref().map_or("unknown".to_owned(), |since| {
            let earlier = if since.or_earlier { " or earlier" } else { "" };
            format!("{}{earlier}", since.at)
        });
        let packets = finding.packets.map(|packets| packets.to_string());
        vec![
            finding.state.to_string(),
            kind(finding),
            match finding.kind {
                Kind::Conntrack => finding.count.to_string(),
                _ => "-".to_owned(),
            },
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

/// The kind of a finding, with the state of a TCP flow.
fn kind(finding: &Finding) -> String {
    match &finding.connection {
        Some(state) => format!("{} {state}", finding.kind),
        None => finding.kind.to_string(),
    }
}

/// `namespace/name:port`
fn service(finding: &Finding) -> String {
    match (&finding.service, &finding.port) {
        (Some(service), Some(port)) => format!("{service}:{port}"),
        (Some(service), None) => service.clone(),
        (None, _) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::since::Since;
    use super::*;

    fn finding(state: State, kind: Kind) -> Finding {
        Finding {
            state,
            kind,
            port: Some("http".into()),
            packets: None,
            connection: None,
            at: "ip kube-proxy services".into(),
            ..super::super::finding::tests::flow()
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        Report {
            node: "n".into(),
            endpoints: 1,
            flows: Some(4),
            rules: Some(2),
            destinations: None,
            findings,
            not_looked_at: vec![],
        }
    }

    #[test]
    fn a_clean_report_is_one_line() {
        assert_eq!(
            report(vec![]).text(),
            "n: nothing is stale; compared 4 flows and 2 rules with 1 endpoints whose pods have ended"
        );
    }

    #[test]
    fn each_finding_is_one_row_below_the_summary() {
        let flow = Finding {
            hit: Some("team-b/b".into()),
            since: Some(Since {
                at: "1970-01-01T00:00:01.000Z".into(),
                or_earlier: true,
            }),
            packets: Some(7),
            connection: Some("SYN_SENT".into()),
            count: 193,
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
                "n: stale: 193 flows, 1 allowed to end; compared 4 flows and no rules with 1 endpoints whose pods have ended",
                "",
                "STATE KIND FLOWS SERVICE ENDPOINT MEANT HIT REASON SINCE PACKETS WHERE",
                "stale conntrack SYN_SENT 193 shop/web:http 10.244.1.10:8080 TCP shop/a team-b/b dead-backend 1970-01-01T00:00:01.000Z \
                 or earlier 7 10.244.1.5:40000 -> 10.96.0.1:80",
                "allowed to end nftables rule - shop/web:http 10.244.1.10:8080 TCP shop/a nobody dead-backend unknown \
                 not counted ip kube-proxy services",
                "",
                "not read: rules: no right",
            ]
        );
    }

    #[test]
    fn flows_rules_and_destinations_are_counted_apart() {
        let kinds = [
            Kind::Conntrack,
            Kind::NftablesRule,
            Kind::IptablesRule,
            Kind::IpvsDestination,
        ];
        let mut report = report(kinds.map(|kind| finding(State::Stale, kind)).into());
        report.destinations = Some(3);
        let text = report.text();
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "n: stale: 1 flows, 2 rules and 1 destinations; compared 4 flows, 2 rules and 3 destinations with 1 endpoints \
             whose pods have ended"
        );
    }

    #[test]
    fn the_json_document_has_the_same_findings() {
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
