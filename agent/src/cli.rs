//! The command line.

use crate::commands;
use crate::daemon::args::AgentArgs;
use clap::{Parser, Subcommand};

/// Denies packets that a stale Service endpoint sends to dead or reused pod IPs.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the node agent: watch Kubernetes, attach the datapath, deny what is proven stale
    Agent(Box<AgentArgs>),
    /// Show or switch what the datapath does with denials, at once and without a reload
    Mode(commands::mode::ModeArgs),
    /// Switch how denied packets are stopped, at once and without a reload
    Action(commands::action::ActionArgs),
    /// Show what the agent on this node does, and what keeps it from doing it
    Status(commands::status::StatusArgs),
    /// Show denied flows by Service, pod meant and pod hit, or as they come
    Drops(commands::drops::DropsArgs),
    /// Follow what is denied: packets per second by verdict, Service, pod meant and pod hit
    Top(commands::top::TopArgs),
    /// Show owners, denials and counters from the maps, with names if an agent runs
    Dump(commands::dump::DumpArgs),
    /// Show which denials wait for a second list, or trust them by hand
    Breaker(commands::breaker::BreakerArgs),
    /// Find flows and rules of this node that still lead to pods that have ended
    Audit(commands::audit::AuditArgs),
    /// Find EndpointSlices that send traffic to the wrong pod or to nobody; needs only the API
    Lint(commands::lint::LintArgs),
    /// Explain the verdict about an IP, now or then: who owned it, and what moved it
    Why(commands::why::WhyArgs),
    /// Write one archive with what a bug report needs, without credentials
    Sysdump(commands::sysdump::SysdumpArgs),
    /// Print completions for a shell
    Completion(commands::manual::CompletionArgs),
    /// Write manual pages
    Man(commands::manual::ManArgs),
    /// Remove all hooks and maps from this node; stop the agent first, or it attaches again
    Detach(commands::detach::DetachArgs),
}

#[cfg(test)]
mod tests;
