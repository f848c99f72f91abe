//! `kubectl epguard status`: a line for each node, then problems with their remedies, and how nodes differ.
//!
//! ```text
//! `epguard status -o json` of each node --+
//! nodes, ConfigMap of modes (API) --------+-> compare (pure) -> text, or document
//! ```

mod compare;
mod text;

use super::agents::Fleet;
use super::ask::{self, Asked};
use super::modes::Policy;
use super::scope::{Form, Scope};
use crate::commands::status::{self as local, Condition};
use anyhow::Result;
use compare::{Comparison, compare};
use std::process::ExitCode;

/// Exit code if a node has a problem.
const DEGRADED: u8 = 1;

/// Below the options.
pub const HELP: &str = "\
Exit code: 0 all is well, 1 degraded, 2 a node did not answer.

Examples:
  kubectl epguard status                      every node in a line, then problems, each with its remedy
  kubectl epguard status --node worker-1      all about one node
  kubectl epguard status -l pool=edge -o wide";

/// Asks, prints, and returns the exit code. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    let mut asked = conditions(&fleet).await;
    if scope.nodes.len() == 1 && scope.output == Form::Table {
        // One node, as its own command shows it.
        return asked.print(scope.output, &(), |answers| {
            answers.iter().map(|answer| local::text(&answer.known.status, &answer.known.problems)).collect()
        });
    }
    let mut comparison = Comparison::default();
    if !asked.answers.is_empty() {
        comparison = compare(&asked.answers, &asked.without_agent, &fleet.nodes, Policy::read(&fleet).await);
        if scope.output == Form::Table || scope.output == Form::Wide {
            // The table has them among the problems.
            asked.without_agent.clear();
        }
    }
    let degraded = if comparison.problems.is_empty() { 0 } else { DEGRADED };
    let is_wide = scope.output == Form::Wide;
    asked.print(scope.output, &comparison, |_| text::text(&asked, &comparison, is_wide))?;
    Ok(asked.code().max(degraded).into())
}

/// Asks for the status of each node.
pub async fn conditions(fleet: &Fleet) -> Asked<Condition> {
    let mut asked: Asked<Condition> = ask::ask(fleet, &["status"], ask::PATIENCE, None).await;
    for answer in &mut asked.answers {
        // The API names the node for people, and not the answer.
        answer.known.status.node.clone_from(&answer.agent.node);
    }
    asked
}
