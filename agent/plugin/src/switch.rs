//! Switches chosen nodes by their agents: the `ConfigMap` is that of all nodes.

use super::agents::{Agent, Fleet};
use super::answers::{NodeAnswer, absent_lines, name_nodes};
use super::ask::{DOCUMENT, PATIENCE, failure, run_on_nodes};
use super::exec::Done;
use super::policy_change::show_plan;
use super::question::ask_user;
use anyhow::{Result, anyhow, ensure};
use epguard_client::shared::output::print;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Runs a command on each chosen node, after `what` it does, and for how long, was shown. Errors:
/// the answer was not yes, or the output fails.
pub async fn switch_nodes(
    fleet: &Fleet,
    what: &str,
    until: &str,
    command: &[&str],
    yes: bool,
) -> Result<ExitCode> {
    ensure!(
        !fleet.agents.is_empty(),
        "nothing is changed: {}",
        absent_lines(&fleet.missing, &[]).join("; ")
    );
    let nodes = name_nodes(&fleet.node_names());
    let output = fleet.scope.output;
    show_plan(output, &format!("{what} on {nodes}{until}"))?;
    ask_user(yes)?;
    let read = |_: &Agent, done: Done| match done.code {
        0 => Ok((Value::Null, (), 0)),
        _ => Err(failure(&done.stderr).unwrap_or_else(|| "it did not switch".to_owned())),
    };
    let answers = run_on_nodes(fleet, command, PATIENCE, DOCUMENT, read).await;
    let switched: Vec<&str> = answers.answers.iter().map(NodeAnswer::node).collect();
    let mut document = json!({"command": command, "switched": switched});
    answers.add_absent(&mut document);
    let mut lines = Vec::new();
    if !switched.is_empty() {
        lines.push(format!("done: {}", name_nodes(&switched)));
    }
    lines.push(answers.absent());
    let text = fleet.scope.screen().fold(lines.join("\n").trim_end());
    let for_people = |_: &Value| text;
    // A reader that has left before it has seen which nodes are switched is no success.
    print(&output.of_documents().text(&document, for_people)?)
        .map_err(|error| anyhow!("the command was run on {nodes}; {error:#}"))?;
    Ok(answers.code().into())
}
