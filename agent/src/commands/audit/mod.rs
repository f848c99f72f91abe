//! `epguard audit`: which flows of this node still lead to pods that have ended. Reads, and changes nothing.
//!
//! ```text
//! known (maps, status) --+
//! kernel -> conntrack ---+-> judge (pure) -> finding, with since (history) -> report
//! ```

mod conntrack;
mod finding;
mod judge;
mod known;
pub(crate) mod netfilter;
mod report;
mod since;

pub use finding::{Finding, State};
pub use report::Report;
pub use since::Since;

use crate::shared::args::{PinArgs, RunArgs};
use crate::shared::output::{Output, exit};
use crate::shared::status::{self, Request};
use anyhow::{Result, ensure};
use clap::Args;
use known::Known;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use strum::{EnumMessage as _, VariantArray as _};

/// Exit codes: 0 if nothing is stale, 1 if anything is, 2 if not everything could be read.
const FOUND: u8 = 1;
const FAILED: u8 = 2;

/// Options of `epguard audit`.
#[derive(Debug, Args)]
#[command(after_help = format!("STATE:{}\n{AFTER_HELP}", states()))]
pub struct AuditArgs {
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

/// The rest of the help.
const AFTER_HELP: &str = "\
FLOWS: flows to one endpoint in one state are one line; FIRST is the first of them.
PACKETS: those of their clients, if net.netfilter.nf_conntrack_acct was 1 when the flows began.

Exit code: 0 nothing stale, 1 something stale, 2 the flows could not be read.

Examples:
  epguard audit
  epguard audit -o json | jq '.findings[] | select(.state == \"stale\")'";

/// Each state and its meaning.
fn states() -> String {
    let states = State::VARIANTS.iter();
    let each = states.map(|state| format!("\n  {state}: {}", state.get_documentation().unwrap_or_default()));
    each.collect::<Vec<_>>().concat()
}

/// Compares, prints, and returns the exit code.
#[must_use]
pub fn run(args: &AuditArgs) -> ExitCode {
    exit(show(args), FAILED)
}

fn show(args: &AuditArgs) -> Result<u8> {
    let report = collect(&args.pins.pin_dir, &args.run.run_dir)?;
    println!("{}", args.output.text(&report, Report::text)?);
    Ok(verdict(&report))
}

/// The exit code for a report.
pub(crate) fn verdict(report: &Report) -> u8 {
    if report.count(State::Stale) > 0 {
        FOUND
    } else if report.not_looked_at.is_empty() {
        0
    } else {
        FAILED
    }
}

/// Compares the kernel's flows with the agent's denials. Errors: no agent answers, it has not synced, or its
/// view is too old.
pub fn collect(pin_dir: &Path, run_dir: &Path) -> Result<Report> {
    let status = status::read(run_dir)?;
    ensure!(
        status.synced,
        "not every watch of the agent has shown a list yet, so nothing can be compared: see epguard status"
    );
    ensure!(
        !status.denies() || status.lease_ms > 0,
        "the agent's view is too old, so its denials may have ended: see epguard status"
    );
    let known = Known::read(pin_dir, &status)?;
    let read = conntrack::read(|flow| judge::flow(&known, flow).is_some());
    // Reading may have taken seconds: a denial that was lifted meanwhile proves nothing.
    let known = Known::read(pin_dir, &status)?;
    let (flows, not_looked_at) = match read {
        Ok(flows) => (Some(flows), vec![]),
        Err(error) => (None, vec![format!("conntrack: {error:#}: {}", remedy(&error))]),
    };
    let wanted = flows.iter().flat_map(|flows| &flows.wanted);
    let mut findings = finding::merge(wanted.filter_map(|flow| judge::flow(&known, flow)).collect());
    date(&mut findings, run_dir);
    findings.sort();
    Ok(Report {
        node: status.node,
        endpoints: known.endpoints(),
        flows: flows.map(|flows| flows.seen),
        findings,
        not_looked_at,
    })
}

/// Adds since when each pod has ended: one request for each pod at an IP, as long as the agent answers. What its
/// history does not contain stays open.
fn date(findings: &mut [Finding], run_dir: &Path) {
    let mut dated = BTreeMap::new();
    for finding in findings {
        let (ip, dead) = (finding.endpoint.ip(), finding.dead);
        if let Entry::Vacant(place) = dated.entry((ip, dead)) {
            let Ok(answer) = status::ask(run_dir, &Request::History(ip)) else {
                return;
            };
            place.insert(answer.history.and_then(|history| since::since(&history, dead)));
        }
        finding.since.clone_from(&dated[&(ip, dead)]);
    }
}

fn remedy(error: &anyhow::Error) -> &'static str {
    let cause = error.downcast_ref::<io::Error>();
    match cause.and_then(io::Error::raw_os_error) {
        Some(libc::EPERM | libc::EACCES) => {
            "run this as root, or with CAP_NET_ADMIN, in the node's own network namespace"
        }
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT) => {
            "`modprobe nf_conntrack_netlink`, if the kernel has it"
        }
        _ => "run this again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_is_reported_with_its_remedy() {
        for (errno, expected) in [
            (libc::EPERM, "run this as root"),
            (libc::EINVAL, "`modprobe nf_conntrack_netlink`"),
            (libc::ENOBUFS, "run this again"),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            let error = anyhow::Error::from(error).context("the kernel does not list it");
            assert!(remedy(&error).starts_with(expected), "{error:#}");
        }
    }

    #[test]
    fn only_stale_findings_fail_and_an_unread_table_is_never_called_clean() {
        let finding = |state| Finding {
            state,
            ..finding::tests::flow()
        };
        let mut report = Report {
            node: "n".into(),
            endpoints: 0,
            flows: Some(0),
            findings: vec![finding(State::AllowedToEnd), finding(State::Held)],
            not_looked_at: vec![],
        };
        assert_eq!(verdict(&report), 0);
        report.not_looked_at.push("conntrack".into());
        assert_eq!(verdict(&report), FAILED);
        report.findings.push(finding(State::Stale));
        assert_eq!(verdict(&report), FOUND);
    }
}
