//! `epguard-lab`: stories, recordings and the demo.

use anyhow::Result;
use clap::{Parser, Subcommand};
use epguard_lab::{api, demo, replay};
use std::process::ExitCode;

/// The lab of epguard: a real kernel datapath, real sockets and an embedded API server.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Api(api::Args),
    Demo(demo::Args),
    Replay(replay::cli::Args),
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("epguard-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn execute(command: Command) -> Result<()> {
    match command {
        Command::Api(args) => api::run(args).await?,
        Command::Demo(args) => demo::run(&args)?,
        Command::Replay(args) => replay::cli::run(&args)?,
    }
    Ok(())
}
