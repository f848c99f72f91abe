//! `kubectl epguard audit`: flows of all nodes that still lead to pods that have ended.

use super::agents::Fleet;
use super::ask::{self, Answer, Asked, command, names};
use super::scope::Form;
use crate::commands::audit::Report;
use crate::shared::args::ServiceArgs;
use anyhow::Result;
use clap::Args;
use serde_json::Value;
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
pub struct AuditArgs {
    /// Which Services.
    #[command(flatten)]
    pub services: ServiceArgs,
}

/// Asks and prints: nodes with findings one after the other, as their own command shows them; the
/// others share a line. Errors: the output fails.
pub async fn run(fleet: &Fleet, args: &AuditArgs) -> Result<ExitCode> {
    let form = fleet.scope.output;
    let asked: Asked<Report> = ask::ask(
        fleet,
        &command(&["audit"], &args.services.flags()),
        PATIENCE,
    )
    .await;
    let is_short = |answer: &&Answer<Report>| {
        form != Form::Wide
            && answer.known.findings.is_empty()
            && answer.known.not_looked_at.is_empty()
    };
    asked.print(form, Value::Null, |answers| {
        let (clean, others): (Vec<_>, Vec<_>) = answers.iter().partition(is_short);
        let clean: Vec<&str> = clean.into_iter().map(Answer::node).collect();
        let clean = (!clean.is_empty()).then(|| format!("{}: nothing is stale", names(&clean)));
        others
            .into_iter()
            .map(|answer| answer.known.text())
            .chain(clean)
            .collect::<Vec<_>>()
            .join("\n\n")
    })
}
