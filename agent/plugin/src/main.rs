//! `kubectl-epguard`, which kubectl runs as `kubectl epguard`.

use clap::Parser as _;
use kubectl_epguard::Plugin;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    Box::pin(Plugin::parse().run()).await
}
