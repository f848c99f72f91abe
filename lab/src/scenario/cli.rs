//! `epguard-lab scenario`: runs stories and prints the results.

use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use super::failure::Failure;
use super::format::{Runs, Scenario, load};
use super::tell::{How, tell};
use super::variant::Variant;
use crate::files;

/// Run scenarios on the real datapath with the real agent.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenario files, or folders of them [default with --all: lab/scenarios and
    /// lab/scenarios-at-sockets]
    #[arg(required_unless_present = "all")]
    files: Vec<PathBuf>,
    /// Runs at the same time [default: four per processor]
    #[arg(short, long)]
    jobs: Option<usize>,
    /// Run each scenario in one of its variants only, another one for each scenario
    #[arg(long)]
    sample: bool,
    /// Run every scenario in all of its variants, even those with `sample`, with its own callers
    /// and with those of `--socket-lb`
    #[arg(long, conflicts_with_all = ["sample", "socket_lb"])]
    all: bool,
    /// Run the stories with callers at a load balancer at sockets, in place of their own callers
    #[arg(long)]
    socket_lb: bool,
    /// Attempts at each run: if a few failed, they run again, one at a time, and the last result
    /// counts
    #[arg(long, default_value_t = 1)]
    attempts: u32,
    #[command(flatten)]
    how: How,
}

impl Args {
    /// Whether a story runs: a long one runs if its file is named, or with `--all`.
    fn wants(&self, file: &PathBuf, own: &Runs) -> bool {
        !own.long || self.all || self.files.contains(file)
    }

    /// The variants to run of the story with this number.
    fn variants(&self, own: &Runs, index: usize) -> Vec<Variant> {
        let at_sockets = own.at_sockets();
        if self.all {
            let mut variants = Variant::all(own);
            if let Some(runs) = at_sockets
                && !own.has_socket_lb()
            {
                variants.extend(Variant::all(&runs));
            }
            return variants;
        }
        let runs = if self.socket_lb {
            at_sockets
        } else {
            Some(own.clone())
        };
        let Some(runs) = runs else {
            return Vec::new();
        };
        let mut variants = if runs.sample {
            Variant::sample(&runs)
        } else {
            Variant::all(&runs)
        };
        if self.sample {
            variants = vec![variants.remove(index % variants.len())];
        }
        variants
    }
}

/// A busy machine is late with no more runs than this. Of more, each again would take too long.
const FEW: usize = 8;

/// A story in one of its variants.
struct Job<'a> {
    file: &'a Path,
    scenario: &'a Scenario,
    variant: Variant,
}

impl fmt::Display for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.scenario.id, self.variant)
    }
}

/// Runs every story in every variant; the exit code says whether all held.
pub fn run(args: &Args) -> Result<ExitCode> {
    let every = ["scenarios", "scenarios-at-sockets"]
        .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let named = if args.files.is_empty() {
        &every[..]
    } else {
        &args.files
    };
    let files = files::named(named, "scenario", |path| !path.is_dir(), is_yaml)?;
    let mut wanted = Vec::new();
    for file in &files {
        let scenario = load(file)?;
        if args.wants(file, &scenario.runs) {
            wanted.push((file, scenario));
        } else {
            println!("- {}: long, so it runs alone or with --all", scenario.id);
        }
    }
    let mut runs = Vec::new();
    for (index, (file, scenario)) in wanted.iter().enumerate() {
        for variant in args.variants(&scenario.runs, index) {
            runs.push(Job {
                file,
                scenario,
                variant,
            });
        }
    }
    let all = runs.len();
    // Most of the time a run waits to see that no packet comes.
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let mut failed = tell_all(runs, args.jobs.unwrap_or(4 * processors), &args.how);
    for attempt in 2..=args.attempts {
        if failed.is_empty() || failed.len() > FEW {
            break;
        }
        println!("\nattempt {attempt}, one at a time:");
        failed = tell_all(failed, 1, &args.how);
    }
    println!("{} passed, {} failed", all - failed.len(), failed.len());
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Tells the stories, so many `at_once`. Returns those that did not hold, whose evidence it prints
/// last: the beginning of a long log may be cut off.
fn tell_all<'a>(runs: Vec<Job<'a>>, at_once: usize, how: &How) -> Vec<Job<'a>> {
    let waiting = Mutex::new(runs.into_iter());
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next();
            let Some(run) = next else {
                return;
            };
            let start = Instant::now();
            let told = tell(&mut (), run.scenario, run.variant, how).map(drop);
            let took = start.elapsed().as_secs_f64();
            let mark = if told.is_ok() { "✓" } else { "✗" };
            println!("{mark} {:<58} {took:5.1} s", run.to_string());
            if let Err(failure) = told {
                failed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((run, failure));
            }
        }
    };
    thread::scope(|scope| (0..at_once.max(1)).for_each(|_| _ = scope.spawn(work)));
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (run, failure) in &failed {
        report(run, failure);
    }
    failed.into_iter().map(|(run, _)| run).collect()
}

fn is_yaml(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension == "yaml")
}

/// Prints where a story did not hold, and the evidence.
fn report(run: &Job, failure: &Failure) {
    println!("✗ {run}");
    match failure.line {
        Some(line) => {
            let text = std::fs::read_to_string(run.file).unwrap_or_default();
            let step = (1..).zip(text.lines()).find(|(number, _)| *number == line);
            println!(
                "    {}:{line}: {}",
                run.file.display(),
                step.map_or("", |(_, step)| step.trim())
            );
        }
        None => println!("    {}: before the first step", run.file.display()),
    }
    for line in format!("{:#}\n{}", failure.error, failure.evidence).lines() {
        println!("    {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::format::Caller;

    fn parsed(args: &[&str]) -> Args {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        <Line as clap::Parser>::parse_from(["scenario"].iter().chain(args)).args
    }

    #[test]
    fn a_long_story_runs_if_its_file_is_named_or_with_all() {
        let runs = |args: &[&str], long| {
            parsed(args).wants(
                &"f/s.yaml".into(),
                &Runs {
                    long,
                    ..Runs::default()
                },
            )
        };
        assert!(runs(&["f/s.yaml"], true) && runs(&["--all"], true) && runs(&["f"], false));
        assert!(!runs(&["f"], true));
    }

    fn names(args: &[&str], runs: &Runs) -> Vec<String> {
        let variants = parsed(args).variants(runs, 1);
        variants.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn with_all_a_story_runs_with_its_own_callers_and_with_those_at_sockets() {
        let runs = Runs {
            sample: true,
            ..Runs::default()
        };
        assert_eq!(names(&["f"], &runs), ["ipv4", "ipv6"]);
        assert_eq!(names(&["f", "--sample"], &runs), ["ipv6"]);
        let at_sockets = [
            "ipv4 socket-lb-pod",
            "ipv6 socket-lb-pod",
            "ipv4 socket-lb-node",
            "ipv6 socket-lb-node",
        ];
        assert_eq!(
            names(&["f", "--socket-lb"], &runs),
            [at_sockets[0], at_sockets[3]]
        );
        assert_eq!(
            names(&["--all"], &runs),
            [&["ipv4", "ipv6"], &at_sockets[..]].concat()
        );
        let not_there = Runs {
            socket_lb: false,
            ..runs.clone()
        };
        assert_eq!(names(&["--all"], &not_there), ["ipv4", "ipv6"]);
        let only_there = Runs {
            caller: vec![Caller::SocketLbPod],
            ..runs
        };
        assert_eq!(names(&["--all"], &only_there), at_sockets[..2]);
    }
}
