//! `cargo xtask build`: the eBPF object, then the host's binaries with the object inside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::process::{cargo, command, read, root, run as run_command};
use crate::setup::{self, Ebpf};
use crate::toolchain::{OBJECTS, TARGET};

/// The profile of the agent that operators run.
pub(crate) const SHIPPED: &str = "dist";

/// What to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build the agent and the lab optimised, as they are shipped
    #[arg(long)]
    release: bool,
}

/// Builds everything.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    object(&setup::ebpf()?)?;
    if args.release { released() } else { host() }?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the objects and hands each to `agent/build.rs`, which embeds it: the datapath at
/// `target/bpf/epguard-ebpf`, the neighbours at `target/bpf/epguard-neighbour`.
pub(crate) fn object(ebpf: &Ebpf) -> Result<()> {
    // Incremental builds are cut into many units: functions that must be inlined become calls, and
    // need more stack than the kernel allows.
    let mut cargo = ebpf.toolchain.cargo(&["build", "--release"], &ebpf.linker);
    run_command(cargo.env("CARGO_INCREMENTAL", "0"))?;
    OBJECTS
        .iter()
        .try_for_each(|object| hand_over(object, &ebpf.strip))
}

/// What only a debugger reads is left out, four fifths of it; the kernel's own description of types
/// and lines (BTF) stays.
fn hand_over(object: &str, strip: &Path) -> Result<()> {
    let bpf = root().join("target/bpf");
    let built = bpf.join(TARGET).join("release").join(object);
    let stripped = built.with_extension("stripped");
    read(
        command(strip)
            .arg("--strip-debug")
            .arg("-o")
            .args([&stripped, &built]),
    )?;
    let new = fs::read(&stripped).with_context(|| format!("cannot read {}", stripped.display()))?;
    let handed = bpf.join(object);
    // Unchanged files keep their time stamp, on which a new build of the host crate depends.
    if fs::read(&handed).ok() != Some(new) {
        fs::rename(&stripped, &handed)
            .with_context(|| format!("cannot replace {}", handed.display()))?;
    }
    Ok(())
}

/// Builds `epguard`, `kubectl-epguard` and `epguard-lab` in the dev profile.
pub(crate) fn host() -> Result<()> {
    build("dev", &["epguard", "kubectl-epguard", "epguard-lab"])
}

/// Builds `epguard` and `kubectl-epguard` as they are shipped, and `epguard-lab` optimised.
pub(crate) fn released() -> Result<()> {
    build(SHIPPED, &["epguard"])?;
    build(SHIPPED, &["kubectl-epguard"])?;
    build("release", &["epguard-lab"])
}

fn build(profile: &str, packages: &[&str]) -> Result<()> {
    let mut build = cargo();
    build.args(["build", "--profile", profile]);
    for package in packages {
        build.args(["--package", package]);
    }
    run_command(&mut build)
}

/// The folder with the binaries of a profile: `debug` for dev.
pub(crate) fn binaries(profile: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join(profile)
}
