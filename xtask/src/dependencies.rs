//! `cargo xtask dependencies`: licences, sources and known weaknesses of the crates, by cargo-deny.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::process::{command, run as run_command};
use crate::tools;

/// What to check.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Check the advisories alone; their database is fetched first
    #[arg(long)]
    advisories: bool,
}

/// Checks.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.advisories {
        run_command(&mut advisories()?)?;
    } else {
        check()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks licences and sources.
pub(crate) fn check() -> Result<()> {
    run_command(command(deny()?).args(["check", "bans", "licenses", "sources"]))
}

/// Fetches the database of advisories. Returns the check against it. Errors: the database cannot be
/// reached within 20 seconds.
pub(crate) fn advisories() -> Result<Command> {
    let deny = deny()?;
    let mut fetch = command("timeout");
    fetch.arg("20").arg(&deny).args(["fetch", "db"]);
    run_command(&mut fetch)
        .context("the database of advisories, github.com/RustSec/advisory-db, cannot be reached")?;
    let mut check = command(deny);
    check.args(["check", "--disable-fetch", "advisories"]);
    Ok(check)
}

fn deny() -> Result<PathBuf> {
    tools::cargo_tool("cargo-deny", "0.20.2", &[])
}
