//! `epguard lint`: finds `EndpointSlices` that send traffic to the wrong pod, or to no pod.

use crate::shared::args::ClusterArgs;
use crate::shared::output::Output;
use clap::Args;
use epguard_client::lint::{self, LintArgs};
use std::process::ExitCode;

/// Options of `epguard lint`.
#[derive(Debug, Args)]
pub struct NodeLintArgs {
    /// What is checked.
    #[command(flatten)]
    pub lint: LintArgs,
    /// Form of the output
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// The API server, and who asks it.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Checks, prints, and returns the exit code.
pub async fn run(args: &NodeLintArgs) -> ExitCode {
    lint::run(&args.cluster, args.output, &args.lint).await
}
