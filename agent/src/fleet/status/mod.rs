//! `kubectl epguard status`: a line for each node, then problems with their remedies, and how nodes differ.
//!
//! ```text
//! `epguard status -o json` of each node --+
//! nodes, ConfigMap of modes (API) --------+-> compare (pure) -> text, or document
//! ```

mod cluster;
mod compare;
mod modes;
mod text;

pub use cluster::read_modes;
pub use modes::{deviation, is_canary};

use cluster::Cluster;

use super::agents::Fleet;
use super::ask::{self, Answer, Asked};
use super::document;
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

/// Asks, prints, and returns the exit code. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, _: &StatusArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    let asked = conditions(&fleet).await;
    if scope.nodes.len() == 1 && scope.output == Form::Table {
        return one(&asked);
    }
    let cluster = if asked.answers.is_empty() {
        Cluster::default()
    } else {
        Cluster::read(&fleet).await
    };
    let comparison = compare::compare(&asked.answers, &cluster);
    let degraded = if comparison.problems.is_empty() {
        0
    } else {
        DEGRADED
    };
    let code = asked.code().max(degraded);
    let wide = scope.output == Form::Wide;
    let missing = asked.missing.len();
    document::print(scope.output, &asked, &comparison, |answers| {
        text::text(answers, missing, &comparison, wide.then_some(&cluster))
    })?;
    Ok(code.into())
}

/// The status of each node.
pub async fn conditions(fleet: &Fleet) -> Asked<Condition> {
    let patience = fleet.scope.patience(ask::PATIENCE);
    let mut asked = ask::ask::<Condition>(fleet, &["status", "-o", "json"], patience).await;
    for answer in &mut asked.answers {
        // The API names the node for people, and not the answer.
        answer.value.status.node.clone_from(&answer.agent.node);
    }
    asked
}

/// One node, as its own command shows it.
fn one(asked: &Asked<Condition>) -> Result<ExitCode> {
    document::print(Form::Table, asked, document::Nothing {}, |answers| {
        let texts = answers
            .iter()
            .map(|Answer { value, .. }| local::text(&value.status, &value.problems));
        texts.collect()
    })
}
