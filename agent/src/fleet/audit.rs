//! `kubectl epguard audit`: flows of all nodes that still lead to pods that have ended.

use super::agents::Fleet;
use super::ask::{self, Answer, Document};
use super::missing::names;
use super::scope::{Form, Scope};
use crate::commands::audit::{self as local, Report};
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// Seconds to wait for a node: it reads all of its conntrack table.
const PATIENCE: u64 = 30;

/// Options of `kubectl epguard audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Columns and states: epguard audit --help.

Exit code: 0 nothing stale, 1 something stale, 2 a node did not answer, or could not read its flows.

Examples:
  kubectl epguard audit               each node with findings; the others in one line
  kubectl epguard audit -n shop       what leads to pods of one namespace's Services
  kubectl epguard audit -o wide       each node")]
pub struct AuditArgs {}

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, _: &AuditArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    let mut asked = ask::ask::<Report>(&fleet, &["audit"], PATIENCE, Some("/findings")).await;
    for Answer { agent, value, code } in &mut asked.answers {
        let Document { exact, known } = value;
        // The API names the node for people, and not the answer.
        known.node.clone_from(&agent.node);
        let others = exact["findings"].as_array().map_or(0, Vec::len) - known.findings.len();
        if others > 0 {
            let what =
                format!("{others} findings in words of another version: use the plugin of its version");
            known.not_looked_at.push(what);
        }
        if scope.namespace.is_some() {
            *code = local::verdict(known);
        }
    }
    let is_wide = scope.output == Form::Wide;
    asked.print(&fleet, &(), |answers| text(answers, is_wide))
}

/// Nodes with findings one after the other, as their own command shows them; the others share a line.
fn text(answers: &[Answer<Document<Report>>], is_wide: bool) -> String {
    let is_clean = |report: &Report| report.findings.is_empty() && report.not_looked_at.is_empty();
    let (clean, others): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| !is_wide && is_clean(&answer.value.known));
    let mut parts: Vec<String> = others.iter().map(|answer| answer.value.known.text()).collect();
    let nodes: Vec<&str> = clean.iter().map(|answer| answer.node()).collect();
    if !nodes.is_empty() {
        parts.push(format!("{}: nothing is stale", names(&nodes)));
    }
    parts.join("\n\n")
}
