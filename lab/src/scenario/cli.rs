//! `epguard-lab scenario`: tells stories and reports.

use std::collections::VecDeque;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::format::Scenario;
use super::load;
use super::tell::{Failure, tell};
use super::variant::Variant;

/// Tell stories on the real datapath with the real agent.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenario files, or folders with such [default with --all: lab/scenarios]
    #[arg(required_unless_present = "all")]
    files: Vec<PathBuf>,
    /// Runs at the same time [default: three per processor]
    #[arg(short, long)]
    jobs: Option<usize>,
    /// Tell each story in one of its variants only, from story to story in another one
    #[arg(long)]
    sample: bool,
    /// Tell every story in all of its variants, also those that say `sample`
    #[arg(long, conflicts_with = "sample")]
    all: bool,
    /// Leave maps and logs of failed runs in /run/epguard-lab until the next start
    #[arg(long)]
    keep: bool,
    /// `--hooks` of the agent: auto, tcx or clsact
    #[arg(long)]
    hooks: Option<String>,
}

struct Job<'a> {
    file: &'a PathBuf,
    scenario: &'a Scenario,
    variant: Variant,
}

/// Tells every story in every variant; the exit code says whether all held.
pub fn run(args: &Args) -> Result<ExitCode> {
    let every = [PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))];
    let named = if args.files.is_empty() {
        &every[..]
    } else {
        &args.files
    };
    let files = files(named)?;
    let scenarios = files
        .iter()
        .map(|file| load(file).map(|scenario| (file, scenario)));
    let scenarios: Vec<(&PathBuf, Scenario)> = scenarios.collect::<Result<_>>()?;
    let runs = scenarios
        .iter()
        .enumerate()
        .flat_map(|(index, (file, scenario))| {
            let mut variants = if scenario.runs.sample && !args.all {
                Variant::sample(&scenario.runs)
            } else {
                Variant::all(&scenario.runs)
            };
            if args.sample {
                variants = vec![variants.remove(index % variants.len())];
            }
            variants.into_iter().map(move |variant| Job {
                file,
                scenario,
                variant,
            })
        });
    let jobs: Mutex<VecDeque<Job<'_>>> = Mutex::new(runs.collect());
    // Runs mostly wait for what must not come.
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let parallel = args.jobs.unwrap_or(3 * processors).max(1);
    let (tell_result, results) = mpsc::channel();
    let (mut passed, mut failed) = (0, 0);
    thread::scope(|scope| {
        for _ in 0..parallel {
            let (jobs, results) = (&jobs, tell_result.clone());
            scope.spawn(move || {
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(job) = job else { return };
                    let start = Instant::now();
                    let told = tell(job.scenario, job.variant, args.hooks.as_deref(), args.keep);
                    let _ = results.send((job, told, start.elapsed()));
                }
            });
        }
        drop(tell_result);
        for (job, told, took) in results {
            report(&job, &told, took);
            if told.is_ok() { passed += 1 } else { failed += 1 }
        }
    });
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(job: &Job<'_>, told: &Result<(), Box<Failure>>, took: Duration) {
    let mark = if told.is_ok() { "✓" } else { "✗" };
    let name = format!("{} [{}]", job.scenario.id, job.variant);
    println!("{mark} {name:<58} {:5.1} s", took.as_secs_f64());
    let Err(failure) = told else { return };
    match failure.line {
        Some(line) => println!(
            "    {}:{line}: {}",
            job.file.display(),
            source_line(job.file, line)
        ),
        None => println!("    {}: before the first step", job.file.display()),
    }
    for line in format!("{:#}\n{}", failure.error, failure.evidence).lines() {
        println!("    {line}");
    }
}

fn source_line(file: &PathBuf, line: u64) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let index = usize::try_from(line).unwrap_or_default().saturating_sub(1);
    text.lines().nth(index).unwrap_or_default().trim().to_owned()
}

/// Folders stand for the scenario files in them, in order of their names.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let listed = path
            .read_dir()
            .with_context(|| format!("cannot list {}", path.display()))?;
        let mut found: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
        found.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        found.sort();
        files.append(&mut found);
    }
    Ok(files)
}
