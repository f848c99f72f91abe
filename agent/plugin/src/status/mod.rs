//! `kubectl epguard status`: how many nodes are well, those without an answer, problems with their
//! remedies, the agents, and how they differ.

mod agent_table;
mod differences;
mod headline;
mod problem_list;

use super::agents::Fleet;
use super::answers::{FleetAnswers, UNKNOWN, join_parts};
use super::ask::{PATIENCE, ask_nodes};
use super::scope::FleetOutput;
use agent_table::agent_table;
use anyhow::Result;
use clap::Args;
use differences::{difference_lines, differences};
use epguard_client::answers::status::Condition;
use headline::headline;
use problem_list::problem_list;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Options of `kubectl epguard status`: none of its own.
#[derive(Debug, Args)]
#[command(after_help = "\
Equal nodes share a line where there are 20 or more, or where the terminal is too narrow for a line \
of each; -o wide shows each. Of nodes that share one, LEAST FRESH and DENIED are those of the \
worst, and WRONG is the sum.

Without --timeout it waits 5 s for each node, and 30 s for each answer of the API \
server.

Exit code: 0 all is well, 1 a node is degraded or has no agent, 2 a node did not answer.

Examples:
  kubectl epguard status                    problems with remedies, all agents
  kubectl epguard status --node worker-1    all about one node
  kubectl epguard status -l pool=edge -o wide")]
pub struct FleetStatusArgs {}

/// Asks, prints, and returns the exit code. Errors: the output fails.
pub async fn run(fleet: &Fleet) -> Result<ExitCode> {
    let scope = &fleet.scope;
    let screen = scope.screen();
    let asked: FleetAnswers<Condition> = ask_nodes(fleet, &["status"], PATIENCE).await;
    if scope.nodes.len() == 1 && scope.output == FleetOutput::Table {
        // One node, as its own command shows it.
        asked.print(scope.output, Value::Null, |answers| {
            answers
                .iter()
                .map(|answer| answer.known.to_text(screen))
                .collect()
        })?;
        return Ok(code(&asked).into());
    }
    let differences = differences(&asked.answers);
    let list_error = fleet.without_agent.as_ref().err();
    let more = json!({"differences": differences, "notCompared": list_error});
    asked.print_whole(scope.output, more, || {
        let mut lines = difference_lines(&differences);
        if let Some(why) = list_error {
            lines.push(format!("not compared: nodes without an agent: {why}"));
        }
        join_parts([
            screen.fold(&headline(&asked)),
            screen.fold(&asked.absent()),
            screen.fold(&problem_list(&asked.answers, screen.full)),
            agent_table(&asked.answers, screen),
            screen.fold(&lines.join("\n")),
        ])
    })?;
    Ok(code(&asked).into())
}

/// The exit code of the worst node. One without an agent is degraded.
fn code(asked: &FleetAnswers<Condition>) -> u8 {
    if asked.lacks_answer() {
        return UNKNOWN;
    }
    let lacks_agent = !asked.missing.is_empty() || !asked.without_agent.is_empty();
    asked.worst_answer().max(u8::from(lacks_agent))
}

/// Agents for the tests of this folder.
#[cfg(test)]
mod testing {
    use crate::agents::Agent;
    use crate::answers::StatusAnswer;
    use epguard_client::answers::status::{Condition, Problem};
    use epguard_client::shared::status::{ModeSource, Status};
    use epguard_common::Mode;
    use epguard_core::state::IpState;
    use serde_json::Value;

    /// The agent of `worker-NUMBER`, in observe, with two stale IPs and these problems.
    pub fn agent(number: usize, problems: &[&str]) -> StatusAnswer {
        let node = format!("worker-{number}");
        let mut status = Status {
            version: "0.1.0".into(),
            node: node.clone(),
            mode: Some(Mode::Observe),
            mode_source: ModeSource::ModePolicy,
            view_age_ms: Some(3000),
            ..Status::default()
        };
        status.figures.ips.insert(IpState::Denied, 2);
        let problems = problems
            .iter()
            .map(|what| Problem::new(*what, format!("remedy of {what}")))
            .collect();
        StatusAnswer {
            agent: Agent::sample(&node),
            exact: Value::Null,
            known: Condition { problems, status },
            code: 0,
        }
    }

    /// So many well agents, from `worker-1` on.
    pub fn agents(count: usize) -> Vec<StatusAnswer> {
        (1..=count).map(|number| agent(number, &[])).collect()
    }
}
