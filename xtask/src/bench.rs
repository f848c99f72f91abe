//! `bench`: what a packet costs in the kernel, and a flood the node's other traffic. All rows of a table in one run.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::build;
use crate::process::{cargo, is_root, run as run_command};
use crate::setup;

/// Sets up, builds the object, and runs the benchmarks.
pub(crate) fn run() -> Result<ExitCode> {
    if !is_root() {
        bail!("`cargo xtask bench` loads BPF programs: run it as root");
    }
    setup::programs()?;
    build::object(&setup::ebpf()?)?;
    for (package, bench) in [("epguard", "datapath"), ("epguard-lab", "flood")] {
        run_command(cargo().args(["bench", "--quiet", "--package", package, "--bench", bench]))?;
    }
    Ok(ExitCode::SUCCESS)
}
