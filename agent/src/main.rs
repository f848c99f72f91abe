//! `epguard`: the node agent and its command line.

use anyhow::Result;
use clap::Parser as _;
use epguard::cli::{Cli, Command};
use epguard::{audit, breaker, condition, datapath, drops, dump, lint, manual, maps, run, sysdump, top, why};
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
        Command::Mode { mode, reason, pins } => match mode {
            Some(mode) => maps::set_mode(&pins.pin_dir, mode, reason),
            None => maps::show_mode(&pins.pin_dir, reason).map(|text| println!("{text}")),
        },
        Command::Action(args) => maps::set_action(&args.pins.pin_dir, &args.choice()?),
        Command::Detach { pins } => {
            let removed = datapath::detach(&pins.pin_dir)?;
            for what in &removed {
                println!("removed {what}");
            }
            if removed.is_empty() {
                println!("nothing to remove");
            }
            Ok(())
        }
        Command::Drops(args) => drops::run(&args),
        Command::Top(args) => top::run(args).await,
        Command::Sysdump(args) => sysdump::run(&args).await,
        Command::Completion(args) => {
            manual::complete(&args);
            Ok(())
        }
        Command::Man(args) => manual::pages(&args),
        Command::Breaker(args) => breaker::run(args),
        Command::Status(args) => return Ok(condition::run(&args)),
        Command::Audit(args) => return Ok(audit::run(&args)),
        Command::Lint(args) => return Ok(lint::run(args).await),
        Command::Why(args) => why::run(args),
        Command::Dump { output, pins, run } => dump::dump(&pins.pin_dir, &run.run_dir, output),
    };
    done.map(|()| ExitCode::SUCCESS)
}
