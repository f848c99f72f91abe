//! `kubectl epguard audit`: flows of all nodes that still lead to pods that have ended.

use super::agents::Fleet;
use super::ask::{self, Answer, Asked};
use super::nodes::names;
use super::scope::{Form, Scope};
use crate::commands::audit::{self as local, Report};
use anyhow::Result;
use std::process::ExitCode;

/// Seconds to wait for a node: it reads all of its conntrack table.
const PATIENCE: u64 = 30;

/// Below the options.
pub const HELP: &str = "\
Columns and states: epguard audit --help.

Exit code: 0 nothing stale, 1 something stale, 2 a node did not answer, or could not read its flows.

Examples:
  kubectl epguard audit               each node with findings; the others in one line
  kubectl epguard audit -n shop       what leads to pods of one namespace's Services
  kubectl epguard audit -o wide       each node";

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    let mut asked: Asked<Report> = ask::ask(&fleet, &["audit"], PATIENCE, Some("/findings")).await;
    for Answer { agent, exact, known, code } in &mut asked.answers {
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
    // Nodes with findings one after the other, as their own command shows them; the others share a line.
    let is_clean = |report: &Report| report.findings.is_empty() && report.not_looked_at.is_empty();
    asked.print(scope.output, &(), |answers| {
        let (clean, others): (Vec<&Answer<_>>, Vec<_>) =
            answers.iter().partition(|answer| scope.output != Form::Wide && is_clean(&answer.known));
        let clean: Vec<&str> = clean.into_iter().map(Answer::node).collect();
        let clean = (!clean.is_empty()).then(|| format!("{}: nothing is stale", names(&clean)));
        others.into_iter().map(|answer| answer.known.text()).chain(clean).collect::<Vec<_>>().join("\n\n")
    })
}
