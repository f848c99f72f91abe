//! `kubectl epguard lint`: the same check as `epguard lint`. It needs the API and no agent.

use super::scope::Scope;
use crate::commands::lint::{self, LintArgs};
use crate::shared::args::seconds;
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;

/// Options of `kubectl epguard lint`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 no error found, 1 errors (with --strict also warnings), 2 it could not check.

Examples:
  kubectl epguard lint
  kubectl epguard lint -n shop -o json")]
pub struct Options {
    /// Exit with 1 for warnings, too
    #[arg(long)]
    pub strict: bool,
    /// Check again after this time, and report only findings of both checks; 0: check once
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds(0..=60))]
    pub confirm_after: Duration,
}

/// Checks, prints, and returns the exit code.
pub async fn run(scope: Scope, options: Options) -> ExitCode {
    lint::run(LintArgs {
        kubeconfig: scope.kubeconfig,
        context: scope.context,
        namespace: scope.namespace,
        output: scope.output.output(),
        strict: options.strict,
        confirm_after: options.confirm_after,
    })
    .await
}
