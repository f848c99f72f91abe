//! `cargo xtask bench`: figures of epguard beside what else could be used. All rows of a table come from one run.
//!
//! ```text
//! name: command -> form: samples -> figures: ratios -> table, plot, page
//!                                                   -> check: ratios against limits
//! ```
//!
//! Times differ from machine to machine and with its other work. Ratios of one run hold, so only they have limits.

mod check;
mod figures;
mod form;
mod machine;
mod name;
mod page;
mod plot;
mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::build;
use crate::process::{exit, is_root, name as name_of, root, run as run_command};
use crate::setup;
use check::Checked;
use form::Table;
use name::Name;

/// What to measure, and the output.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Benchmarks to run; all if none is named
    names: Vec<Name>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
    /// Fail if a ratio misses its limit by more than its margin
    #[arg(long)]
    check: bool,
    /// Write tables and plots into docs/performance.md and docs/scale.md
    #[arg(long)]
    page: bool,
}

/// One run.
#[derive(Serialize)]
struct Run {
    machine: String,
    tables: Vec<Table>,
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
    let mut run = Run {
        machine: machine::machine(),
        tables: Vec::new(),
    };
    for name in names {
        run.tables.extend(measure(&mut name.command())?);
    }
    keep(&run)?;
    if args.page {
        page::renew(&run)?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&run)?);
    } else {
        println!("{}", run.markdown());
    }
    Ok(exit(!args.check || are_kept(&run.tables)))
}

/// Runs a benchmark and reads its tables; none if it only prints. It prints to standard error, which leaves standard output
/// to the result.
fn measure(command: &mut Command) -> Result<Vec<Table>> {
    let folder = folder()?;
    let file = folder.join("samples.json");
    let _ = fs::remove_file(&file);
    command.env("EPGUARD", build::binaries(build::SHIPPED).join("epguard"));
    command.env(form::FILE, &file).stdout(Stdio::from(io::stderr()));
    run_command(command)?;
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} wrote no tables", name_of(command)))
}

/// Writes each table's figures and its plot to `target/bench`.
fn keep(run: &Run) -> Result<()> {
    for table in &run.tables {
        let alone = Run {
            machine: run.machine.clone(),
            tables: vec![table.clone()],
        };
        let file = folder()?.join(&table.name);
        write(
            &file.with_extension("json"),
            &serde_json::to_string_pretty(&alone)?,
        )?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn folder() -> Result<PathBuf> {
    let folder = root().join("target/bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Compares the ratios with their limits and margins, and prints those that miss them.
fn are_kept(tables: &[Table]) -> bool {
    let Checked {
        kept,
        by_margin,
        missed,
    } = check::check(tables);
    for line in missed.values() {
        eprintln!("missed: {line}");
    }
    eprintln!(
        "{kept} ratios within their limits, {by_margin} of them only with their margin; {} not",
        missed.len()
    );
    missed.is_empty()
}

impl Run {
    /// All tables, and the machine.
    fn markdown(&self) -> String {
        let mut blocks: Vec<String> = self.tables.iter().map(Table::markdown).collect();
        if !blocks.is_empty() {
            blocks.push(format!("Measured on: {}.", self.machine));
        }
        blocks.join("\n\n")
    }
}
