//! `demo`, `scenario` and `replay`: verbs of `epguard-lab`, run with a fresh build of everything.

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::build;
use crate::process::{command, is_root, name};
use crate::setup;

/// Passed on as they are.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments of epguard-lab; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Sets up, builds, and runs the lab's `verb`; its exit code is ours. An error without root.
pub(crate) fn run(verb: &str, args: &Args) -> Result<ExitCode> {
    if !is_root() {
        bail!(
            "`epguard-lab {verb}` makes network namespaces and loads BPF programs: run it as root"
        );
    }
    setup::programs()?;
    build::object(&setup::ebpf()?)?;
    build::host()?;
    let mut lab = lab(verb);
    // Paths among the arguments are the caller's, not the workspace's.
    lab.args(&args.rest)
        .current_dir(env::current_dir().context("no working directory")?);
    let status = lab
        .status()
        .with_context(|| format!("cannot run {}", name(&lab)))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

/// `epguard-lab VERB`, which `build::host` has built.
pub(crate) fn lab(verb: &str) -> Command {
    let mut lab = command(build::binaries("debug").join("epguard-lab"));
    lab.arg(verb);
    lab
}
