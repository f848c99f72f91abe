//! `bench`: what a packet costs in the kernel, all rows in one run.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::build;
use crate::process::{cargo, is_root, run as run_command};
use crate::setup;

/// Sets up, builds the object, and runs the benchmark.
pub(crate) fn run() -> Result<ExitCode> {
    if !is_root() {
        bail!("`cargo xtask bench` loads BPF programs: run it as root");
    }
    setup::programs()?;
    build::object(&setup::ebpf()?)?;
    run_command(cargo().args(["bench", "--quiet", "--package", "epguard", "--bench", "datapath"]))?;
    Ok(ExitCode::SUCCESS)
}
