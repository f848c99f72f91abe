//! `kubectl epguard version`: the versions of the plugin and of all agents.

use super::agents::Fleet;
use super::answers::{FleetAnswers, group_by_value, name_nodes};
use super::ask::{PATIENCE, ask_nodes};
use super::scope::Scope;
use anyhow::Result;
use clap::Args;
use epguard_client::answers::status::Condition;
use epguard_client::shared::output::{count, print};
use serde_json::json;
use std::process::ExitCode;

/// Of this plugin.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// Options of `kubectl epguard version`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --timeout it waits 5 s for each node, and 30 s for each answer of the API \
server.

Exit code: 0 every node answered, 2 a node did not answer.

Examples:
  kubectl epguard version
  kubectl epguard version --client    this plugin alone, without a cluster")]
pub struct FleetVersionArgs {
    /// Only this plugin's version; no cluster is asked
    #[arg(long)]
    pub client: bool,
}

/// Asks and prints. Errors: there are no agents, or the output fails.
pub async fn run(scope: Scope, args: &FleetVersionArgs) -> Result<ExitCode> {
    let own = json!({"plugin": OWN});
    if args.client {
        let output = scope.output.of_documents();
        print(&output.text(&own, |_| own_line())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let fleet = Fleet::find(scope).await?;
    let asked: FleetAnswers<Condition> = ask_nodes(&fleet, &["status"], PATIENCE).await;
    let code = asked.unanswered();
    asked.print(fleet.scope.output, own, |answers| {
        let versions = answers
            .iter()
            .map(|answer| (answer.known.status.version.as_str(), answer.node()));
        let mut lines = vec![own_line()];
        for (version, nodes) in group_by_value(versions) {
            let number = count(nodes.len() as u64, "node");
            lines.push(format!(
                "agent  {version} on {number}: {}",
                name_nodes(&nodes)
            ));
        }
        lines.join("\n")
    })?;
    Ok(code.into())
}

fn own_line() -> String {
    format!("plugin {OWN}")
}
