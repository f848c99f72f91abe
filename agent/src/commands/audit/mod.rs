//! `epguard audit`: which flows of this node still lead to pods that have ended. Reads, and changes
//! nothing.
//!
//! ```text
//! maps, status -> KnownDenials --+
//! kernel -> conntrack -----------+-> finding (pure) -> AuditReport
//! ```

mod conntrack;
mod finding;

pub use finding::{AuditFinding, FlowState};

use crate::shared::args::{PinArgs, RunArgs, ServiceArgs};
use crate::shared::drops::NOBODY;
use crate::shared::output::{Column, Output, columned, count, exit};
use crate::shared::status;
use anyhow::{Result, ensure};
use clap::Args;
use finding::KnownDenials;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::ExitCode;

/// For what the kernel does not list.
const REMEDY: &str =
    "run this as root, in the node's network namespace; the kernel needs nf_conntrack_netlink";

/// Exit codes: 0 if nothing is stale, 1 if anything is, 2 if not everything could be read.
const FOUND: u8 = 1;
const FAILED: u8 = 2;

/// Options of `epguard audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
STATE: stale, or allowed to end: the pod meant has finished or is deleted, and may still serve the flows it has (retired-backend).
FLOWS: flows to one endpoint in one state are one line; FIRST is the first of them.

Exit code: 0 nothing stale, 1 something stale, 2 the flows could not be read.

Examples:
  epguard audit
  epguard audit -o json | jq '.findings[] | select(.state == \"stale\")'")]
pub struct AuditArgs {
    /// Which Services.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// Form of the output
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Compares, prints, and returns the exit code.
pub fn run(args: &AuditArgs) -> ExitCode {
    let shown = collect(&args.pins.pin_dir, &args.run.run_dir).and_then(|mut report| {
        report
            .findings
            .retain(|finding| finding.is_about(&args.services));
        println!("{}", args.output.text(&report, AuditReport::to_text)?);
        Ok(exit_code_of(&report))
    });
    exit(shown, FAILED)
}

/// The exit code for a report.
fn exit_code_of(report: &AuditReport) -> u8 {
    if report.count_flows(FlowState::Stale) > 0 {
        FOUND
    } else if report.not_looked_at.is_empty() {
        0
    } else {
        FAILED
    }
}

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

    /// For people: a summary, then one row per finding.
    pub fn to_text(&self) -> String {
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
        let mut parts = vec![format!(
            "{}: {stale}{ending}; compared {compared} with {} whose pods have ended",
            self.node,
            count(self.endpoints, "endpoint")
        )];
        if !self.findings.is_empty() {
            parts.push(columned(&COLUMNS, &self.findings));
        }
        if !self.not_looked_at.is_empty() {
            let lines: Vec<String> = self
                .not_looked_at
                .iter()
                .map(|what| format!("not read: {what}"))
                .collect();
            parts.push(lines.join("\n"));
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

/// Compares the kernel's flows with the agent's denials. Errors: no agent answers, it has not
/// synced, or its view is too old.
pub fn collect(pin_dir: &Path, run_dir: &Path) -> Result<AuditReport> {
    let status = status::current(run_dir)?;
    ensure!(
        status.synced,
        "not every watch of the agent has shown a list yet, so nothing can be compared: see epguard status"
    );
    ensure!(
        !status.denies() || status.lease_ms > 0,
        "the agent's view is too old, so its denials may have ended: see epguard status"
    );
    let before = KnownDenials::from_maps(pin_dir, &status)?;
    let read = conntrack::list_flows(|flow| before.finding_of(flow).is_some());
    // Reading may have taken seconds: a denial that was lifted meanwhile proves nothing.
    let denials = KnownDenials::from_maps(pin_dir, &status)?;
    let mut report = AuditReport {
        node: status.node,
        endpoints: denials.endpoints(),
        flows: None,
        findings: Vec::new(),
        not_looked_at: Vec::new(),
    };
    match read {
        Ok((seen, wanted)) => {
            report.flows = Some(seen);
            let findings = wanted.iter().filter_map(|flow| denials.finding_of(flow));
            report.findings = finding::merge_findings(findings);
        }
        Err(error) => {
            let cause = format!("conntrack: {error:#}: {REMEDY}");
            report.not_looked_at.push(cause);
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ..finding::tests::flow()
        };
        let mut report = AuditReport {
            findings: vec![finding(FlowState::AllowedToEnd)],
            ..report()
        };
        assert_eq!(exit_code_of(&report), 0);
        report.not_looked_at.push("conntrack".into());
        assert_eq!(exit_code_of(&report), FAILED);
        report.findings.push(finding(FlowState::Stale));
        assert_eq!(exit_code_of(&report), FOUND);
    }

    #[test]
    fn each_finding_is_one_row_below_the_summary() {
        let stale = AuditFinding {
            hit: Some("team-b/b".into()),
            count: 193,
            ..finding::tests::flow()
        };
        let ending = AuditFinding {
            state: FlowState::AllowedToEnd,
            connection: None,
            ..finding::tests::flow()
        };
        let mut report = report();
        let clean = "n: nothing is stale; compared 4 flows with 1 endpoint whose pods have ended";
        assert_eq!(report.to_text(), clean);
        report.flows = None;
        report.findings = vec![stale, ending];
        report.not_looked_at.push("conntrack: no right".into());
        let text = report.to_text();
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
}
