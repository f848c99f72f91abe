//! `epguard-lab`: stories, recordings and the demo.

use clap::{Parser, Subcommand};
use epguard_lab::{demo, replay, scenario};
use std::process::ExitCode;

/// The lab of epguard: a real kernel datapath, real sockets and an embedded API server.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Scenario(scenario::Args),
    Replay(replay::cli::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Replay(args) => replay::cli::run(&args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("epguard-lab: {error:#}");
        ExitCode::FAILURE
    })
}
