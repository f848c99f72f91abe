//! `cargo xtask bench`: figures of epguard beside what else could be used. All rows of a table come
//! from one run.
//!
//! Times differ from machine to machine and with its other work. Ratios of one run hold, and so
//! does work that is bounded: only these have limits.

use std::fs;
use std::process::ExitCode;
use std::thread;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::build;
use crate::packages;
use crate::process::{cargo, exit, is_root, run as run_command};
use crate::setup;

/// What to measure, and the output.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Benchmarks to run; all if none is named
    names: Vec<Name>,
    /// Print each table with all its samples as a line of JSON
    #[arg(long)]
    json: bool,
    /// Take fewer and shorter samples
    #[arg(long)]
    quick: bool,
    /// Fail if a row misses its limit
    #[arg(long)]
    check: bool,
}

/// A benchmark.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// A packet in each program, beside empty programs and xdp-filter
    Packet,
    /// Start on a node of 250 interfaces, takeover, memory
    Node,
    /// Traffic through a node, beside nftables and ipset
    Stack,
    /// An agent in clusters of 10,000 and 100,000 pods, beside its budgets
    Scale,
    /// How long what is stale is denied while a Service's pods are replaced
    Rollout,
    /// A call to a Service beside a socket load balancer
    SocketLb,
    /// The worst objects of one tenant: standstill and memory of an agent
    Tenants,
}

/// Sets up, builds what the benchmarks need, and runs each in a process of its own.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !is_root() {
        bail!("`cargo xtask bench` loads BPF programs: run it as root");
    }
    setup::programs()?;
    // What epguard is compared with.
    packages::install_missing(&[("xdp-filter", "xdp-tools"), ("ipset", "ipset")])?;
    build::object(&setup::ebpf()?)?;
    build::released()?;
    let mut passed = true;
    let names = if args.names.is_empty() {
        Name::value_variants()
    } else {
        &args.names
    };
    for name in names.iter().filter_map(ValueEnum::to_possible_value) {
        let mut bench = cargo();
        bench.env("EPGUARD", build::binaries(build::SHIPPED).join("epguard"));
        let target = if name.get_name() == "tenants" {
            "tenants"
        } else {
            "bench"
        };
        bench.args([
            "bench",
            "--quiet",
            "--package",
            "epguard-lab",
            "--bench",
            target,
            "--",
        ]);
        bench.arg(name.get_name());
        bench
            .args(args.json.then_some("--json"))
            .args(args.quick.then_some("--quick"));
        bench.args(args.check.then_some("--check"));
        match run_command(&mut bench) {
            // The others are worth a run, too.
            Err(error) if args.check => {
                eprintln!("{error:#}");
                passed = false;
            }
            result => result?,
        }
    }
    eprintln!("Measured on: {}.", machine());
    Ok(exit(passed))
}

/// Processor, cores and kernel in a line. On Arm the processor is only a number.
fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let model = field(&processors, "model name")
        .or_else(|| field(&processors, "CPU part"))
        .unwrap_or("unknown processor");
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

/// The first value of a field of /proc/cpuinfo.
fn field<'a>(processors: &'a str, name: &str) -> Option<&'a str> {
    for line in processors.lines() {
        if let Some((key, value)) = line.split_once(':')
            && key.trim() == name
        {
            return Some(value.trim());
        }
    }
    None
}
