//! `cargo xtask bench`: figures of epguard beside what else could be used. All rows of a table come from one run.
//!
//! ```text
//! name: command -> form: samples -> table: minimum, median, ratio to a peer
//! ```
//!
//! Times differ from machine to machine and with its other work. Ratios of one run hold, so only they have limits.

mod form;
mod table;

use std::fs;
use std::io;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::process::{cargo, is_root, name as name_of, root, run as run_command};
use crate::setup;
use form::Table;

/// What to measure, and the output.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Benchmarks to run; all if none is named
    names: Vec<Name>,
    /// Print all samples as one JSON document instead of tables
    #[arg(long)]
    json: bool,
}

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// A packet in each program, beside empty programs and xdp-filter
    Packet,
    /// Start on a node of 250 interfaces, takeover, memory
    Node,
    /// Traffic through a node, beside nftables and ipset
    Stack,
    /// An agent in clusters of 10,000 and 100,000 pods, beside its budgets
    Scale,
    /// A call to a Service beside a socket load balancer
    SocketLb,
}

/// Sets up, builds what the benchmarks need, and runs them.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !is_root() {
        bail!("`cargo xtask bench` loads BPF programs: run it as root");
    }
    setup::programs()?;
    setup::bench_programs()?;
    build::object(&setup::ebpf()?)?;
    let all = <Name as clap::ValueEnum>::value_variants();
    let names = if args.names.is_empty() { all } else { &args.names };
    if names.iter().any(|name| name.starts_others()) {
        build::released()?;
    }
    let mut tables = Vec::new();
    for name in names {
        tables.extend(measure(&mut name.command())?);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&tables)?);
    } else {
        let shown: Vec<String> = tables.iter().map(Table::markdown).collect();
        println!("{}\n\nMeasured on: {}.", shown.join("\n\n"), machine());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a benchmark and reads its tables. It prints to standard error, which leaves standard output to the result.
fn measure(command: &mut Command) -> Result<Vec<Table>> {
    let file = root().join("target/bench-samples.json");
    command.env("EPGUARD", build::binaries(build::SHIPPED).join("epguard"));
    command.env(form::FILE, &file).stdout(Stdio::from(io::stderr()));
    run_command(command)?;
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} wrote no tables", name_of(command)))
}

impl Name {
    fn command(self) -> Command {
        match self {
            // Nearly all their time is the kernel's, and its programs are always optimised: no other build is needed.
            Self::Packet => bench("epguard", "packet", "dev"),
            Self::Node => bench("epguard", "node", "dev"),
            Self::Stack => bench("epguard-lab", "stack", "release"),
            Self::Scale => bench("epguard-lab", "scale", "release"),
            Self::SocketLb => bench("epguard-lab", "socket_lb", "release"),
        }
    }

    /// Whether it starts the agent or the lab, optimised.
    fn starts_others(self) -> bool {
        !matches!(self, Self::Packet | Self::Node)
    }
}

fn bench(package: &str, bench: &str, profile: &str) -> Command {
    let mut cargo = cargo();
    cargo.args(["bench", "--quiet", "--profile", profile, "--package", package, "--bench", bench]);
    cargo
}

/// Processor, cores and kernel in a line. On Arm the processor is only a number.
fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let fields = || processors.lines().filter_map(|line| line.split_once(':'));
    let named = |name| fields().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    let model = named("model name").or_else(|| named("CPU part")).unwrap_or("unknown processor");
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}
