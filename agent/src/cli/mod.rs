//! The command line.

use crate::commands::{
    action, audit, breaker, check_pod, completion, detach, drops, dump, lint, mode, status,
    sysdump, why,
};
use crate::daemon::args::AgentArgs;
use crate::daemon::run;
use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use kubectl_epguard::Plugin;
use std::ffi::OsString;
use std::iter;
use std::process::ExitCode;

/// Denies packets that a stale Service endpoint sends to dead or reused pod IPs.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do: the table of verbs. Names, parsers, help and completions derive from it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the node agent: watch Kubernetes, attach the datapath, deny packets to endpoints that
    /// are proven stale
    Agent(Box<AgentArgs>),
    /// Show or switch what the datapath does with denials, at once and without a reload
    Mode(mode::ModeArgs),
    /// Switch what happens to denied packets, at once and without a reload
    Action(action::ActionArgs),
    /// Show the state of this node's agent: problems first, each with its remedy
    Status(status::StatusArgs),
    /// Show denied flows by Service, pod meant and pod hit; with -f, new ones every second
    Drops(drops::DropsArgs),
    /// Show owners, denials and counters from the maps, with names if an agent runs
    Dump(dump::DumpArgs),
    /// Show denials that wait for a second list, or release them by hand
    Breaker(breaker::BreakerArgs),
    /// Find flows of this node that still lead to pods that have ended
    Audit(audit::AuditArgs),
    /// Find EndpointSlices that send traffic to the wrong pod or to no pod; needs only the API
    Lint(lint::NodeLintArgs),
    /// Explain the verdict about an IP, now or at an earlier time: its owners, and what changed it
    Why(why::WhyArgs),
    /// Write one archive with what a bug report needs, without credentials
    Sysdump(sysdump::SysdumpArgs),
    /// Print completions for a shell
    Completion(completion::CompletionArgs),
    /// Remove all hooks and maps from this node; stop the agent first
    Detach(detach::DetachArgs),
    /// Serve or call in a pod of `kubectl epguard check`
    #[command(hide = true)]
    CheckPod(check_pod::CheckPodArgs),
    /// Do what `kubectl epguard` does, in a pod that has no plugin: with its service account
    #[command(hide = true, disable_help_flag = true)]
    Kubectl {
        /// The plugin's own: its verbs are not the agent's.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

impl Command {
    /// Does it. Errors: one line with the cause and the remedy.
    pub async fn run(self) -> Result<ExitCode> {
        let done = match self {
            Self::Agent(args) => run::run(*args).await,
            Self::Mode(args) => mode::run(&args),
            Self::Action(args) => action::run(&args),
            Self::Status(args) => return Ok(status::run(&args)),
            Self::Drops(args) => drops::run(&args),
            Self::Dump(args) => dump::run(&args),
            Self::Breaker(args) => breaker::run(args),
            Self::Audit(args) => return Ok(audit::run(&args)),
            Self::Lint(args) => return Ok(lint::run(&args).await),
            Self::Why(args) => why::run(&args),
            Self::Sysdump(args) => sysdump::run(&args).await,
            Self::Completion(args) => {
                completion::run(&args, Cli::command());
                Ok(())
            }
            Self::Detach(args) => detach::run(&args),
            Self::CheckPod(args) => check_pod::run(args).await,
            Self::Kubectl { words } => {
                let words = iter::once("kubectl epguard".into()).chain(words);
                return Ok(Box::pin(Plugin::parse_from(words).run()).await);
            }
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests;
