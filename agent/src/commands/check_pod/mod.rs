//! `epguard check-pod`: the processes in the pods of `kubectl epguard check`. `serve` answers with
//! its name, `call` counts its calls and their ends. They need no right and no capability.

mod call;
mod serve;

use anyhow::Result;
use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// What a pod of the check does.
#[derive(Debug, Args)]
pub struct CheckPodArgs {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Answer each call with a name, over TCP and UDP
    Serve(serve::ServeArgs),
    /// Make calls, and report in one line what became of them
    Call(call::CallArgs),
}

/// Plays the part until its end, or until SIGTERM: the first process of a container ends by no
/// signal that it does not wait for. Errors: the sockets or the report.
pub async fn run(args: CheckPodArgs) -> Result<()> {
    let mut end = signal(SignalKind::terminate())?;
    let part = async {
        match args.part {
            Part::Serve(args) => serve::run(&args).await,
            Part::Call(args) => call::run(&args).await,
        }
    };
    tokio::select! {
        done = part => done,
        _ = end.recv() => Ok(()),
    }
}
