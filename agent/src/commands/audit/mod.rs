//! `epguard audit`: which flows of this node still lead to pods that have ended. Reads, and changes
//! nothing.
//!
//! ```text
//! maps, status -> KnownDenials --+
//! kernel -> conntrack -----------+-> finding (pure) -> AuditReport
//! ```

mod conntrack;
mod finding;

use crate::shared::args::{PinArgs, RunArgs, ServiceArgs};
use crate::shared::output::{Output, exit};
use crate::shared::screen::Screen;
use crate::shared::status;
use anyhow::{Result, ensure};
use clap::Args;
use epguard_client::answers::audit::AuditReport;
use finding::KnownDenials;
use std::path::Path;
use std::process::ExitCode;

/// For what the kernel does not list.
const REMEDY: &str =
    "run this as root, in the node's network namespace; the kernel needs nf_conntrack_netlink";

/// Exit code if not everything could be read.
const UNKNOWN: u8 = 2;

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
        let text = |report: &AuditReport| report.to_text(Screen::of_output(false));
        println!("{}", args.output.text(&report, text)?);
        Ok(report.exit_code())
    });
    exit(shown, UNKNOWN)
}

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
