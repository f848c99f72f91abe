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
mod following;
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
use scope::{CommonArgs, NodesArgs, OnNodes, Scope};
use std::process::ExitCode;

/// Shows epguard on all nodes of a cluster, and switches it there.
#[derive(Debug, Parser)]
#[command(
    version,
    name = "kubectl-epguard",
    bin_name = "kubectl epguard",
    max_term_width = 100
)]
pub struct Plugin {
    /// The cluster, and the form of the output.
    #[command(flatten)]
    pub common: CommonArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do on all nodes: the table of verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show problems with their remedies, then the agents: equal ones in one line, and how they differ
    Status(OnNodes<status::FleetStatusArgs>),
    /// Show denied flows of all nodes by Service, pod meant and pod hit; with -f, new ones as they
    /// come
    Drops(OnNodes<drops::FleetDropsArgs>),
    /// Explain the verdicts about an IP, now or at an earlier time; nodes that agree share an
    /// answer
    Why(OnNodes<why::FleetWhyArgs>),
    /// Find flows of all nodes that still lead to pods that have ended
    Audit(OnNodes<audit::FleetAuditArgs>),
    /// Show or switch the modes of all nodes, or of chosen ones; shows what changes, and asks
    Mode(OnNodes<mode::FleetModeArgs>),
    /// Show or switch the actions for denied packets of all nodes, or of chosen ones; shows what
    /// changes, and asks
    Action(OnNodes<action::FleetActionArgs>),
    /// List the denials that the breaker stops, on all nodes, or release them; shows what changes,
    /// and asks
    Breaker(OnNodes<breaker::FleetBreakerArgs>),
    /// Play stale traffic on chosen nodes, and compare what was sent with what their agents saw
    Check(OnNodes<check::CheckArgs>),
    /// Write one archive with the archives of all nodes, without credentials
    Sysdump(OnNodes<sysdump::FleetSysdumpArgs>),
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
    Version(OnNodes<version::FleetVersionArgs>),
    /// Print the script by which kubectl completes this plugin's command lines
    #[command(after_help = completion::HELP)]
    Completion,
    /// What that script runs
    #[command(name = "__complete", hide = true)]
    Complete(completion::CompleteArgs),
}

/// Below the options of lint.
const LINT_HELP: &str = "\
Without --timeout it waits as long as the lists take.

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
        let Self { common, command } = self;
        match command {
            Command::OnNodes(verb) => verb.run(common).await,
            Command::Lint(args) => {
                let output = common.output.of_documents();
                Ok(lint::run(&common.cluster, output, &args).await)
            }
            Command::Version(OnNodes { args, nodes }) => {
                version::run(Scope::new(common, nodes), &args).await
            }
            Command::Completion => completion::print_script(),
            Command::Complete(args) => completion::complete(args, Self::command()),
        }
    }
}

impl Verb {
    /// Finds the agents and asks them.
    async fn run(self, common: CommonArgs) -> Result<ExitCode> {
        match self {
            Verb::Status(on) => {
                let fleet = find(common, on.nodes, "").await?;
                status::run(&fleet).await
            }
            Verb::Drops(on) => {
                let fleet = find(common, on.nodes, "").await?;
                drops::run(fleet, &on.args).await
            }
            Verb::Why(on) => {
                let needs_all = if on.args.client.is_some() {
                    "--client chooses the nodes:"
                } else {
                    ""
                };
                let fleet = find(common, on.nodes, needs_all).await?;
                why::run(fleet, &on.args).await
            }
            Verb::Audit(on) => {
                let fleet = find(common, on.nodes, "").await?;
                audit::run(&fleet, &on.args).await
            }
            Verb::Mode(on) => {
                let needs_all = of_all_nodes(on.args.canary || on.args.unset);
                let fleet = find(common, on.nodes, needs_all).await?;
                mode::run(&fleet, &on.args).await
            }
            Verb::Action(on) => {
                let needs_all = of_all_nodes(on.args.canary || on.args.unset);
                let fleet = find(common, on.nodes, needs_all).await?;
                action::run(&fleet, &on.args).await
            }
            Verb::Breaker(on) => {
                let fleet = find(common, on.nodes, "").await?;
                breaker::run(&fleet, &on.args).await
            }
            Verb::Check(on) => {
                let fleet = find(common, on.nodes, "").await?;
                Box::pin(check::run(fleet, &on.args)).await
            }
            Verb::Sysdump(on) => {
                let fleet = find(common, on.nodes, "").await?;
                sysdump::run(fleet, &on.args).await
            }
        }
    }
}

/// Why chosen nodes contradict flags that change the `ConfigMap` of all nodes; empty without these.
const fn of_all_nodes(has_flag: bool) -> &'static str {
    if has_flag { OF_ALL_NODES } else { "" }
}

/// Finds the agents. `needs_all` is why no nodes may be chosen; empty if they may. Errors: they are
/// chosen then, or as of [`Fleet::find`].
async fn find(common: CommonArgs, nodes: NodesArgs, needs_all: &str) -> Result<Fleet> {
    let scope = Scope::new(common, nodes);
    ensure!(
        needs_all.is_empty() || scope.is_whole(),
        "{needs_all} leave out --node and --selector"
    );
    Fleet::find(scope).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Plugin::command().debug_assert();
    }

    #[test]
    fn each_verb_names_its_longest_waits() {
        let plugin = Plugin::command();
        for verb in plugin.get_subcommands() {
            let name = verb.get_name();
            if ["completion", "__complete"].contains(&name) {
                continue;
            }
            let help = verb.get_after_help().unwrap().to_string();
            assert!(help.contains("--timeout"), "{name}");
            let of_nodes = match name {
                "lint" => continue,
                "audit" => audit::PATIENCE,
                "sysdump" => sysdump::PATIENCE,
                _ => ask::PATIENCE,
            };
            let of_server = agents::PATIENCE.as_secs();
            for wait in [of_nodes, of_server] {
                assert!(help.contains(&format!(" {wait} s")), "{name}: {help}");
            }
        }
    }

    #[test]
    fn examples_fit_a_narrow_terminal() {
        let plugin = Plugin::command();
        for verb in plugin.get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let mut examples = help.lines().filter(|line| line.starts_with("  "));
            assert_eq!(examples.find(|line| line.len() > 80), None);
        }
    }
}
