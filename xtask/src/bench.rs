//! `bench`: what a packet costs in the kernel, a flood the node's other traffic, and how long the agent takes: from an event
//! to the maps, from a new interface to its hooks, from an API server that is back to the lease. All rows of a table in one
//! run. Figures of time are judged here by people, and by no test: they depend on what else the machine does.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::build;
use crate::lab;
use crate::process::{cargo, is_root, root, run as run_command};
use crate::setup;

/// Sets up, builds the object, and runs the benchmarks.
pub(crate) fn run() -> Result<ExitCode> {
    if !is_root() {
        bail!("`cargo xtask bench` loads BPF programs: run it as root");
    }
    setup::programs()?;
    build::object(&setup::ebpf()?)?;
    build::host(true)?;
    for (package, bench) in [
        ("epguard", "datapath"),
        ("epguard-lab", "flood"),
        ("epguard-lab", "outage"),
    ] {
        run_command(cargo().args(["bench", "--quiet", "--package", package, "--bench", bench]))?;
    }
    run_command(
        cargo()
            .args([
                "test",
                "--quiet",
                "--release",
                "--package",
                "epguard-lab",
                "--test",
                "cluster",
            ])
            .args(["--", "--ignored", "--nocapture", "is_hooked"]),
    )?;
    run_command(
        lab::release("replay")
            .args(["--agent", "--speed", "20"])
            .arg(root().join("lab/traces/s-churn-4-addresses")),
    )?;
    Ok(ExitCode::SUCCESS)
}
