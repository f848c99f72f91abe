//! `kubectl epguard status`: a line for each node, then problems with their remedies, and how nodes differ.
//!
//! ```text
//! `epguard status -o json` of each node --+
//! nodes, ConfigMap of modes (API) --------+-> compare (pure) -> text, or document
//! ```

mod compare;
mod modes;
mod text;

use super::agents::Fleet;
use super::ask::{self, Asked, Document};
use super::cluster::Cluster;
use super::scope::{Form, Scope};
use crate::commands::status::{self as local, Condition};
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// Exit code if a node has a problem.
const DEGRADED: u8 = 1;

/// Options of `kubectl epguard status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 all is well, 1 degraded, 2 a node did not answer.

Examples:
  kubectl epguard status                      every node in a line, then problems, each with its remedy
  kubectl epguard status --node worker-1      all about one node
  kubectl epguard status -l pool=edge -o wide")]
pub struct StatusArgs {}

/// The status of each node.
pub type Conditions = Asked<Document<Condition>>;

/// Asks, prints, and returns the exit code. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, _: &StatusArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    let asked = conditions(&fleet).await;
    if scope.nodes.len() == 1 && scope.output == Form::Table {
        // One node, as its own command shows it.
        return asked.print(&fleet, &(), |answers| {
            let known = answers.iter().map(|answer| &answer.value.known);
            known.map(|known| local::text(&known.status, &known.problems)).collect()
        });
    }
    let mut cluster = Cluster::default();
    if !asked.answers.is_empty() {
        cluster = Cluster::read(&fleet).await;
    }
    let comparison = compare::compare(&asked.answers, &cluster);
    let degraded = if comparison.problems.is_empty() { 0 } else { DEGRADED };
    let wide = (scope.output == Form::Wide).then_some(&cluster);
    asked.print(&fleet, &comparison, |_| text::text(&asked, &comparison, wide))?;
    Ok(asked.code().max(degraded).into())
}

/// Asks for the status of each node.
pub async fn conditions(fleet: &Fleet) -> Conditions {
    let mut asked: Conditions = ask::ask(fleet, &["status"], ask::PATIENCE, None).await;
    for answer in &mut asked.answers {
        // The API names the node for people, and not the answer.
        answer.value.known.status.node.clone_from(&answer.agent.node);
    }
    asked
}
