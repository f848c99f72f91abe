//! `epguard`: the node agent and its command line.

use anyhow::Result;
use clap::Parser as _;
use epguard::cli::{Cli, Command};
use nix::sys::signal::{SigHandler, Signal, signal};
use std::process::ExitCode;

/// Exit code of a verb that could not do its work, as of wrong flags.
const FAILED: u8 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Box::pin(execute(Cli::parse().command)).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("epguard: {error:#}");
            FAILED.into()
        }
    }
}

/// A reader that has seen enough (`epguard drops -f | head`) ends a command; the agent only loses
/// its log. Connections to an API server may break, too, which ends nothing.
fn end_with_the_reader(command: &Command) -> Result<()> {
    if !matches!(
        command,
        Command::Agent(_) | Command::Lint(_) | Command::Kubectl { .. }
    ) {
        // SAFETY: the default action runs no code of ours.
        unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
    }
    Ok(())
}

async fn execute(command: Command) -> Result<ExitCode> {
    end_with_the_reader(&command)?;
    command.run().await
}
