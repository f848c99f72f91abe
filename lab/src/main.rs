//! `epguard-lab`: stories, recordings and the demo.

use anyhow::Result;
use clap::{Parser, Subcommand};
use epguard_lab::{api, demo, replay, scenario};
use std::process::ExitCode;
use tokio::runtime::Runtime;

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
    Api(api::cli::Args),
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("epguard-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo(args) => return demo::run(&args),
        Command::Scenario(args) => return scenario::run(&args),
        Command::Replay(args) => replay::cli::run(&args)?,
        Command::Api(args) => Runtime::new()?.block_on(api::cli::run(&args))?,
    }
    Ok(ExitCode::SUCCESS)
}
