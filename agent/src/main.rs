//! `epguard`: the node agent and its command line.

use anyhow::Result;
use clap::{CommandFactory as _, Parser as _};
use epguard::cli::{Cli, Command};
use epguard::commands::{
    action, audit, breaker, detach, drops, dump, lint, manual, mode, status, sysdump, top, why,
};
use epguard::daemon::run;
use nix::sys::signal::{SigHandler, Signal, signal};
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match execute(Cli::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("epguard: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A reader that has seen enough (`epguard drops -f | head`) ends a command; the agent only loses its log. Connections to an
/// API server may break, too, which ends nothing.
fn end_with_the_reader(command: &Command) -> Result<()> {
    if !matches!(command, Command::Agent(_) | Command::Lint(_)) {
        // SAFETY: the default action runs no code of ours.
        unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
    }
    Ok(())
}

async fn execute(command: Command) -> Result<ExitCode> {
    end_with_the_reader(&command)?;
    let done = match command {
        Command::Agent(args) => run::run(*args).await,
        Command::Mode(args) => mode::run(&args),
        Command::Action(args) => action::run(&args),
        Command::Detach(args) => detach::run(&args),
        Command::Drops(args) => drops::run(&args),
        Command::Top(args) => top::run(args).await,
        Command::Sysdump(args) => sysdump::run(&args).await,
        Command::Completion(args) => {
            manual::complete(&args, Cli::command());
            Ok(())
        }
        Command::Man(args) => manual::pages(&args, Cli::command()),
        Command::Breaker(args) => breaker::run(args),
        Command::Status(args) => return Ok(status::run(&args)),
        Command::Audit(args) => return Ok(audit::run(&args)),
        Command::Lint(args) => return Ok(lint::run(args).await),
        Command::Why(args) => why::run(args),
        Command::Dump(args) => dump::run(&args),
    };
    done.map(|()| ExitCode::SUCCESS)
}
