//! `kubectl epguard`: one view of the cluster. The same binary, under the name `kubectl-epguard`.
//!
//! ```text
//! scope (flags) -> agents (list of pods) -> ask: exec of `epguard VERB -o json` in each
//! answers -> the verb's table of all nodes, or one document; missing nodes by cause;
//!            the worst node's exit code
//! ```

mod agents;
mod answers;
mod ask;
mod audit;
mod check;
mod drops;
mod exec;
#[cfg(test)]
mod fuzz;
mod mode;
mod scope;
mod status;
mod sysdump;
mod why;

use crate::shared::output::{complain, is_unread};
use agents::Fleet;
use answers::UNKNOWN;
use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use scope::Scope;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The name under which kubectl finds the plugin.
const NAME: &str = "kubectl-epguard";

/// Shows epguard on all nodes of a cluster, and switches it there.
#[derive(Debug, Parser)]
#[command(version, name = NAME, bin_name = "kubectl epguard")]
pub struct Plugin {
    /// The cluster, and the nodes that are asked.
    #[command(flatten)]
    pub scope: Scope,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do on all nodes: the table of verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show each node's agent in a line, then problems with their remedies, and how nodes differ
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
    /// Play stale traffic on chosen nodes, and compare what was sent with what their agents saw
    Check(check::CheckArgs),
    /// Write one archive with the archives of all nodes, without credentials
    Sysdump(sysdump::FleetSysdumpArgs),
}

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
        let Self { scope, verb } = self;
        // The parser sees only flags on the same side of the verb.
        ensure!(
            scope.nodes.is_empty() || scope.selector.is_none(),
            "--node and --selector cannot be used together: leave out one of them"
        );
        let needs_all = match &verb {
            Verb::Why(args) if args.client.is_some() => "--client chooses the nodes:",
            Verb::Mode(args) if args.canary || args.unset => {
                "nothing is changed: --canary and --unset change the ConfigMap of all nodes;"
            }
            _ => "",
        };
        ensure!(
            needs_all.is_empty() || scope.is_whole(),
            "{needs_all} leave out --node and --selector"
        );
        let fleet = Fleet::find(scope).await?;
        match verb {
            Verb::Status => status::run(&fleet).await,
            Verb::Drops(args) => drops::run(fleet, &args).await,
            Verb::Why(args) => why::run(fleet, &args).await,
            Verb::Audit(args) => audit::run(&fleet, &args).await,
            Verb::Mode(args) => mode::run(&fleet, &args).await,
            Verb::Check(args) => check::run(fleet, &args).await,
            Verb::Sysdump(args) => sysdump::run(fleet, &args).await,
        }
    }
}

/// Whether the program was started as the plugin.
pub fn is_plugin(program: Option<OsString>) -> bool {
    program.is_some_and(|program| {
        Path::new(&program)
            .file_name()
            .is_some_and(|name| name == NAME)
    })
}
