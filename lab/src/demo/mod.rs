//! The demo: kubernetes #109414, before and after, told to somebody who knows Kubernetes and not epguard.
//!
//! `story` tells it act by act; `stage` is the cluster it plays on, whose API objects `recording` takes from a real one;
//! `callers` make calls and `tally` counts their answers; `reports` reads what the agent logged; `listing` shows
//! what the API holds, `maps` what the kernel holds; `screen` prints `words`.

mod callers;
mod listing;
mod maps;
mod recording;
mod reports;
mod screen;
mod stage;
mod story;
mod tally;
mod words;

use std::process::ExitCode;

use anyhow::Result;

/// Show what epguard is for: a Service whose clients are answered by another team's pod
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Plays the demo; an error if anything it claims did not hold. Needs root.
pub fn run(_: &Args) -> Result<ExitCode> {
    story::tell().map(|()| ExitCode::SUCCESS)
}
