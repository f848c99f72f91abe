//! `epguard lint`: finds `EndpointSlices` that send traffic to the wrong pod, or to no pod. Needs
//! the API and nothing else.
//!
//! ```text
//! lists -> ListedObjects -> State (as an agent knows them)
//!   -> services -> endpoints, addresses (pure) -> findings -> report
//! ```
//!
//! A finding states a fact, and its advice changes nothing that may be in service: whether an
//! endpoint is, often only its writer knows. What was not listed is unknown, and not absent.

mod addresses;
mod advice;
mod cluster;
mod endpoints;
mod finding;
mod ranges;
mod services;
mod unlisted;

pub use cluster::ListedObjects;
pub use finding::{LintFinding, LintObject, LintProblem, Severity};
pub use services::check;
pub use unlisted::{Unlisted, UnlistedPods};

use crate::shared::args::{ClusterArgs, seconds};
use crate::shared::client::ApiServer;
use crate::shared::output::{Output, after, count, exit, show};
use crate::shared::plain::plain;
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

/// Exit codes: 0 if there is no error (with `--strict` no finding), 1 if there is one, 2 if it
/// could not check.
const FOUND: u8 = 1;
const FAILED: u8 = 2;

/// Options of `epguard lint`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 no error found, 1 errors (with --strict also warnings), 2 it could not check.

Examples:
  epguard lint                          all namespaces, with kubectl's credentials
  epguard lint -n shop -o json          one namespace, for a script
  epguard lint && kubectl apply -k .    before a change")]
pub struct LintArgs {
    /// Check only the EndpointSlices of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// All namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Exit with 1 for warnings, too
    #[arg(long)]
    pub strict: bool,
    /// Check again after this time, and report only findings of both checks, as lists are not of
    /// one moment; 0: check once
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds(0..=60))]
    pub confirm_after: Duration,
}

/// Checks, prints, and returns the exit code.
pub async fn run(cluster: &ClusterArgs, output: Output, args: &LintArgs) -> ExitCode {
    let checked = collect(cluster, args).await.and_then(|report| {
        show(&output.text(&report, LintReport::to_text)?)?;
        Ok(if report.fails(args.strict) { FOUND } else { 0 })
    });
    exit(checked, FAILED)
}

/// Checks once, and if anything is found a second time. Errors name the server, the list, the cause
/// and the remedy.
pub async fn collect(cluster: &ClusterArgs, args: &LintArgs) -> Result<LintReport> {
    let namespace = args.namespace.as_deref();
    let server = ApiServer::connect(cluster).await?;
    let before = check(
        &fetch(&server, cluster.timeout, namespace).await?,
        namespace,
    );
    if before.findings.is_empty() || args.confirm_after.is_zero() {
        return Ok(before);
    }
    tokio::time::sleep(args.confirm_after).await;
    let mut report = check(
        &fetch(&server, cluster.timeout, namespace).await?,
        namespace,
    );
    report.findings.retain(|finding| {
        let mut before = before.findings.iter();
        before.any(|other| other.is_about_same(finding))
    });
    Ok(report)
}

/// Lists everything once, within `longest` if that is given.
async fn fetch(
    server: &ApiServer,
    longest: Option<Duration>,
    namespace: Option<&str>,
) -> Result<ListedObjects> {
    let fetching = ListedObjects::fetch(&server.client, namespace);
    let listed = match longest {
        None => fetching.await,
        Some(longest) => timeout(longest, fetching).await.unwrap_or_else(|_| {
            let seconds = longest.as_secs();
            Err(anyhow!(
                "cannot list everything within {seconds} s: see whether the server is right and reachable, or pass a \
                 longer --timeout, or -n NAMESPACE"
            ))
        }),
    };
    listed.with_context(|| server.name.clone())
}

/// The output of `epguard lint`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintReport {
    /// `EndpointSlices` checked.
    pub slices: usize,
    /// Pods compared with.
    pub pods: usize,
    /// Sorted by object.
    pub findings: Vec<LintFinding>,
    /// What could not be checked.
    pub unchecked: Vec<String>,
}

impl LintReport {
    /// True if a script should stop: there are errors or, if `strict`, warnings.
    pub fn fails(&self, strict: bool) -> bool {
        self.findings
            .iter()
            .any(|finding| strict || finding.severity == Severity::Error)
    }

    /// For people: one block per object, the count last.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let block = |a: &LintFinding, b: &LintFinding| {
            (&a.object, &a.controller) == (&b.object, &b.controller)
        };
        for findings in self.findings.chunk_by(block) {
            let head = format!(
                "{}, controller: {}",
                findings[0].object, findings[0].controller
            );
            let _ = writeln!(text, "{}", plain(&head));
            for finding in findings {
                let severity = finding.severity;
                let problem = finding.problem;
                let address = after(" ", finding.address);
                let what = plain(&finding.what);
                let _ = writeln!(text, "  {severity:7} {problem}{address}: {what}");
                let _ = writeln!(text, "          fix: {}", plain(&finding.fix));
            }
            text.push('\n');
        }
        for what in &self.unchecked {
            let _ = writeln!(text, "not checked: {}", plain(what));
        }
        let findings = self.findings.iter();
        let errors = findings.filter(|f| f.severity == Severity::Error).count();
        let _ = write!(
            text,
            "{} and {}: {}, {}",
            count(self.slices, "EndpointSlice"),
            count(self.pods, "pod"),
            count(errors, "error"),
            count(self.findings.len() - errors, "warning")
        );
        text
    }
}
