//! `cargo xtask lint`: the checks that run nothing of epguard.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow};

use crate::arch::Compiler;
use crate::dependencies;
use crate::ladder::{Counted, Ladder, Planned};
use crate::linker;
use crate::pages;
use crate::process::{cargo, command, read};
use crate::toolchain::Toolchain;

/// Runs the checks alone.
pub(crate) fn run() -> Result<ExitCode> {
    let mut ladder = Ladder::default();
    let mut checks = plan(&mut ladder);
    checks.extend(own_verbs()?);
    match dependencies::advisories() {
        Ok(check) => checks.push(Planned::new("advisories", Counted::ByExit, check)),
        Err(why) => ladder.leave_out("advisories", &format!("{why:#}")),
    }
    ladder.run_together([(checks, 1)]);
    Ok(ladder.finish())
}

/// Checks by other verbs of this program, which first install what they need: licences and sources
/// of the dependencies, and workflows.
pub(crate) fn own_verbs() -> Result<Vec<Planned>> {
    Ok(vec![
        own_verb("dependencies", &["dependencies"])?,
        own_verb("workflows", &["workflows"])?,
    ])
}

fn own_verb(title: &str, arguments: &[&str]) -> Result<Planned> {
    let mut command = command(std::env::current_exe().context("cannot find this program")?);
    command.args(arguments);
    Ok(Planned::new(title, Counted::ByExit, command))
}

/// The checks that are commands. Those that take no time run at once, and what this machine cannot
/// check is left out.
pub(crate) fn plan(ladder: &mut Ladder) -> Vec<Planned> {
    ladder.find("pages", pages::check);
    let mut docs = cargo_with(&["doc", "--no-deps", "--document-private-items"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    let checks = [
        ("format", component("rustfmt", &["fmt", "--all", "--check"])),
        (
            "clippy, host",
            component(
                "clippy",
                &["clippy", "--all-targets", "--", "-D", "warnings"],
            ),
        ),
        ("clippy, eBPF", clippy_ebpf()),
        ("clippy, Windows", clippy_windows()),
        ("docs", Ok(docs)),
    ];
    let mut planned = Vec::new();
    for (title, command) in checks {
        match command {
            Ok(command) => planned.push(Planned::new(title, Counted::ByExit, command)),
            Err(why) => ladder.leave_out(title, &format!("{why:#}")),
        }
    }
    planned
}

/// A check by a part of the Rust toolchain that a minimal installation lacks.
fn component(component: &str, args: &[&str]) -> Result<Command> {
    let there = read(cargo_with(&args[..1]).arg("--version"));
    there.map_err(|_| anyhow!("no {component}; run `rustup component add {component}`"))?;
    Ok(cargo_with(args))
}

/// Clippy for the eBPF crates, by itself: one run over host and eBPF crates would unify their
/// features, and `std` with them.
fn clippy_ebpf() -> Result<Command> {
    let toolchain =
        Toolchain::find().context("no eBPF toolchain; `cargo xtask setup` installs one")?;
    toolchain.ensure_clippy()?;
    // Clippy does not link, but the same flags keep one set of artifacts.
    let linker = linker::find(&toolchain).unwrap_or_else(|| "bpf-linker".into());
    let mut clippy = toolchain.cargo(&["clippy", "--release"], &linker);
    clippy.args(["--", "-D", "warnings"]);
    Ok(clippy)
}

/// Clippy for kubectl's plugin on Windows.
fn clippy_windows() -> Result<Command> {
    let compiler = Compiler::ensure_windows()?;
    let mut clippy = compiler.cargo("clippy", Vec::new());
    clippy.args(["--package", "kubectl-epguard", "--", "-D", "warnings"]);
    Ok(clippy)
}

fn cargo_with(args: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(args);
    cargo
}
