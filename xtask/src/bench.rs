//! `bench`: the time of a packet in the kernel, and of a call beside a socket load balancer; the cost of a flood for the
//! node's other traffic; and the agent's delays: from an event to the maps, from a new interface to its hooks, from a returned
//! API server to the lease. All rows of a table in one run. Times are for people to judge, and no test does: they depend on
//! the other work of the machine.

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
        ("epguard-lab", "socket_lb"),
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
