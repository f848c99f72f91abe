//! `kubectl epguard audit`: flows of all nodes that still lead to pods that have ended.

use super::agents::Fleet;
use super::answers::{FleetAnswers, NodeAnswer, join_parts, name_nodes};
use super::ask::{ask_nodes, command_line};
use anyhow::Result;
use clap::Args;
use epguard_client::answers::audit::AuditReport;
use epguard_client::shared::args::ServiceArgs;
use epguard_client::shared::screen::Screen;
use serde_json::Value;
use std::process::ExitCode;

/// Seconds to wait for a node: it reads all of its conntrack table.
pub const PATIENCE: u64 = 30;

/// Options of `kubectl epguard audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Columns and states: epguard audit --help.

Without --timeout it waits 30 s for each node, and for each answer of the API server.

Exit code: 0 nothing stale, 1 something stale, 2 a node did not answer, or could not read its flows.

Examples:
  kubectl epguard audit            nodes with findings; the others in one line
  kubectl epguard audit -n shop    flows to one namespace's Services
  kubectl epguard audit -o wide    each node")]
pub struct FleetAuditArgs {
    /// Which Services.
    #[command(flatten)]
    pub services: ServiceArgs,
}

/// Asks and prints: nodes with findings one after the other, as their own command shows them; the
/// others share a line. Errors: the output fails.
pub async fn run(fleet: &Fleet, args: &FleetAuditArgs) -> Result<ExitCode> {
    let command = command_line(&["audit"], &args.services.flags());
    let answers: FleetAnswers<AuditReport> = ask_nodes(fleet, &command, PATIENCE).await;
    let screen = fleet.scope.screen();
    answers.print(fleet.scope.output, Value::Null, |answers| {
        reports_text(answers, screen)
    })
}

/// The reports with findings, or on a full screen all; then a line with the other nodes.
fn reports_text(answers: &[NodeAnswer<AuditReport>], screen: Screen) -> String {
    let mut parts = Vec::new();
    let mut clean = Vec::new();
    for answer in answers {
        let report = &answer.known;
        if screen.full || !report.findings.is_empty() || !report.not_looked_at.is_empty() {
            parts.push(report.to_text(screen));
        } else {
            clean.push(answer.node());
        }
    }
    if !clean.is_empty() {
        let line = format!("{}: nothing is stale", name_nodes(&clean));
        parts.push(screen.fold(&line));
    }
    join_parts(parts)
}
