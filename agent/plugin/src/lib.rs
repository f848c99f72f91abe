//! `kubectl epguard`: one view of the cluster.
//!
//! ```text
//! scope (flags) -> agents (list of pods) -> ask: exec of `epguard VERB -o json` in each
//! answers -> the verb's table of all nodes, or one document; missing nodes by cause;
//!            the worst node's exit code
//! ```

mod action;
mod agents;
mod answers;
mod ask;
mod audit;
mod breaker;
mod change_report;
mod check;
mod completion;
mod drops;
mod exec;
mod follow;
#[cfg(test)]
mod fuzz;
mod mode;
mod names;
mod policy_change;
mod policy_map;
mod policy_writer;
mod progress;
mod question;
mod scope;
mod status;
mod switch;
mod sysdump;
mod version;
mod why;

use agents::Fleet;
use answers::UNKNOWN;
use anyhow::{Result, ensure};
use clap::{CommandFactory as _, Parser, Subcommand};
use epguard_client::lint::{self, LintArgs};
use epguard_client::shared::output::{complain, is_unread};
use scope::Scope;
use std::process::ExitCode;

/// Shows epguard on all nodes of a cluster, and switches it there.
#[derive(Debug, Parser)]
#[command(version, name = "kubectl-epguard", bin_name = "kubectl epguard")]
pub struct Plugin {
    /// The cluster, and the nodes that are asked.
    #[command(flatten)]
    pub scope: Scope,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do on all nodes: the table of verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show problems with their remedies, then the agents: equal ones in one line, and how they differ
    #[command(after_help = status::HELP)]
    Status,
    /// Show denied flows of all nodes by Service, pod meant and pod hit; with -f, new ones as they
    /// come
    Drops(drops::FleetDropsArgs),
    /// Explain the verdicts about an IP, now or at an earlier time; nodes that agree share an
    /// answer
    Why(why::FleetWhyArgs),
    /// Find flows of all nodes that still lead to pods that have ended
    Audit(audit::FleetAuditArgs),
    /// Show or switch the modes of all nodes, or of chosen ones; shows what changes, and asks
    Mode(mode::FleetModeArgs),
    /// Show or switch the actions for denied packets of all nodes, or of chosen ones; shows what
    /// changes, and asks
    Action(action::FleetActionArgs),
    /// List the denials that the breaker stops, on all nodes, or release them; shows what changes,
    /// and asks
    Breaker(breaker::FleetBreakerArgs),
    /// Play stale traffic on chosen nodes, and compare what was sent with what their agents saw
    Check(check::CheckArgs),
    /// Write one archive with the archives of all nodes, without credentials
    Sysdump(sysdump::FleetSysdumpArgs),
}

/// What to do: the verbs of all nodes, and those that need no agent.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What asks the agents.
    #[command(flatten)]
    OnNodes(Verb),
    /// Find EndpointSlices that send traffic to the wrong pod or to no pod; needs no agent
    #[command(after_help = LINT_HELP)]
    Lint(LintArgs),
    /// Show the versions of this plugin and of all agents
    Version(version::FleetVersionArgs),
    /// Print the script by which kubectl completes this plugin's command lines
    #[command(after_help = completion::HELP)]
    Completion,
    /// What that script runs
    #[command(name = "__complete", hide = true)]
    Complete(completion::CompleteArgs),
}

/// Below the options of lint.
const LINT_HELP: &str = "\
Exit code: 0 no error found, 1 errors (with --strict also warnings), 2 it could not check.

Examples:
  kubectl epguard lint                          all namespaces
  kubectl epguard lint -n shop -o json          one namespace, for a script
  kubectl epguard lint && kubectl apply -k .    before a change";

/// Why chosen nodes contradict these flags.
const OF_ALL_NODES: &str =
    "nothing is changed: --canary and --unset change the ConfigMap of all nodes;";

impl Plugin {
    /// Does it. The exit code is that of the worst node; 2 if a node did not answer, or if none
    /// could be asked. Then one line has the cause and the remedy.
    pub async fn run(self) -> ExitCode {
        self.execute().await.unwrap_or_else(|error| {
            if is_unread(&error) {
                return ExitCode::SUCCESS;
            }
            complain(&format!("epguard: {error:#}"));
            UNKNOWN.into()
        })
    }

    async fn execute(self) -> Result<ExitCode> {
        let Self { scope, command } = self;
        match command {
            Command::OnNodes(verb) => verb.run(scope).await,
            Command::Lint(args) => {
                let output = scope.output.of_documents();
                Ok(lint::run(&scope.cluster, output, &args).await)
            }
            Command::Version(args) => version::run(scope, &args).await,
            Command::Completion => completion::print_script(),
            Command::Complete(args) => completion::complete(args, Self::command()),
        }
    }
}

impl Verb {
    /// Finds the agents and asks them.
    async fn run(self, scope: Scope) -> Result<ExitCode> {
        // The parser sees only flags on the same side of the verb.
        ensure!(
            scope.nodes.is_empty() || scope.selector.is_none(),
            "--node and --selector cannot be used together: leave out one of them"
        );
        let needs_all = match &self {
            Verb::Why(args) if args.client.is_some() => "--client chooses the nodes:",
            Verb::Mode(args) if args.canary || args.unset => OF_ALL_NODES,
            Verb::Action(args) if args.canary || args.unset => OF_ALL_NODES,
            _ => "",
        };
        ensure!(
            needs_all.is_empty() || scope.is_whole(),
            "{needs_all} leave out --node and --selector"
        );
        let fleet = Fleet::find(scope).await?;
        match self {
            Verb::Status => status::run(&fleet).await,
            Verb::Drops(args) => drops::run(fleet, &args).await,
            Verb::Why(args) => why::run(fleet, &args).await,
            Verb::Audit(args) => audit::run(&fleet, &args).await,
            Verb::Mode(args) => mode::run(&fleet, &args).await,
            Verb::Action(args) => action::run(&fleet, &args).await,
            Verb::Breaker(args) => breaker::run(&fleet, &args).await,
            Verb::Check(args) => Box::pin(check::run(fleet, &args)).await,
            Verb::Sysdump(args) => sysdump::run(fleet, &args).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Plugin::command().debug_assert();
    }
}
