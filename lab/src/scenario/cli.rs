//! `epguard-lab scenario`: runs stories and prints the results.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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

struct Job<'a> {
    file: &'a Path,
    scenario: &'a Scenario,
    variant: Variant,
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
    let jobs = Mutex::new(runs.into_iter());
    // Most of the time a run waits to see that no packet comes.
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let parallel = args.jobs.unwrap_or(4 * processors).max(1);
    // Runs that passed, and those that failed; locked for each report.
    let counts = Mutex::new([0, 0]);
    let work = || {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(Job {
                file,
                scenario,
                variant,
            }) = job
            else {
                return;
            };
            let start = Instant::now();
            let told = tell(&mut (), scenario, variant, &args.how).map(drop);
            let name = format!("{} [{variant}]", scenario.id);
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts[usize::from(told.is_err())] += 1;
            report(file, &name, &told, start.elapsed());
        }
    };
    thread::scope(|scope| (0..parallel).for_each(|_| _ = scope.spawn(work)));
    let [passed, failed] = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn is_yaml(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension == "yaml")
}

fn report(file: &Path, name: &str, told: &Result<(), Box<Failure>>, took: Duration) {
    let mark = if told.is_ok() { "✓" } else { "✗" };
    println!("{mark} {name:<58} {:5.1} s", took.as_secs_f64());
    let Err(failure) = told else { return };
    match failure.line {
        Some(line) => {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let step = (1..).zip(text.lines()).find(|(number, _)| *number == line);
            println!(
                "    {}:{line}: {}",
                file.display(),
                step.map_or("", |(_, step)| step.trim())
            );
        }
        None => println!("    {}: before the first step", file.display()),
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
