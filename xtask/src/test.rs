//! `cargo xtask test`: all steps, cheapest first. Every step runs, and the sum follows.

mod groups;

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::build;
use crate::files::list;
use crate::lab;
use crate::ladder::{Count, Counted, Ladder};
use crate::lint;
use crate::process::{cargo, is_root, root, run as run_command};
use crate::release;
use crate::setup;
use groups::Group;

/// The steps that take longest.
const LONGEST: [&str; 4] = ["root: intents", "root: lives", "root: programs", "root: lifecycle"];

/// How much of the ladder to climb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only what needs no root: checks and unit tests
    #[arg(long)]
    no_root: bool,
}

/// Runs the steps.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.no_root {
        return Ok(rootless());
    }
    if !is_root() {
        bail!(
            "the root tests make namespaces and load BPF programs: run as root, or `cargo xtask test --no-root`"
        );
    }
    let ebpf = setup::ebpf()?;
    setup::programs()?;
    setup::test_programs()?;
    let mut ladder = Ladder::default();
    ladder.check("build", || {
        build::object(&ebpf)?;
        // Builds all binaries that the tests start, with the same features of dependencies everywhere: `--package` would
        // choose others, and build them all once more.
        run_command(cargo().args(["test", "--quiet", "--no-run"]))?;
        Ok(Count { passed: 1, failed: 0 })
    });
    lint::add_to(&mut ladder);
    ladder.check("dependencies", || release::check_dependencies().map(|()| Count { passed: 1, failed: 0 }));
    unit_tests(&mut ladder);
    recordings(&mut ladder);
    // Many stories run at a time already: beside other steps agents would starve while their programs are verified.
    ladder.run("scenario", Counted::ByOutput, scenarios(&["--least-privilege"], "scenarios"));
    let at_sockets = scenarios(&["--least-privilege"], "scenarios-at-sockets");
    ladder.run("scenario, at sockets", Counted::ByOutput, at_sockets);
    // The rest of the agent is as in the step `scenario`, so one variant of each story is enough. The same is true for clsact,
    // where only the attachment of programs differs from tcx; there the agent has all capabilities.
    let socket_lb = scenarios(&["--socket-lb", "--sample", "--least-privilege"], "scenarios");
    ladder.run("scenario, socket-lb", Counted::ByOutput, socket_lb);
    let clsact = scenarios(&["--hooks", "clsact", "--sample"], "scenarios");
    ladder.run("scenario, clsact", Counted::ByOutput, clsact);
    on_the_kernel(&mut ladder);
    Ok(ladder.finish())
}

/// Steps that make namespaces and load programs. Most of them wait, for timers of the kernel or to see that no packet comes,
/// so several run at a time, the longest first.
fn on_the_kernel(ladder: &mut Ladder) {
    const AT_ONCE: usize = 4;
    let groups = match groups::all() {
        Ok(groups) => groups,
        Err(error) => return ladder.check("root tests", || Err(error)),
    };
    let step = |group: &Group| (group.title(), root_tests(&group.which()));
    let mut steps: Vec<(String, Command)> = groups.iter().map(step).collect();
    let libraries = root_tests(&["--lib", "--bins"].map(Into::into));
    steps.push(("root: libraries".into(), libraries));
    steps.sort_by_key(|(title, _)| LONGEST.iter().position(|long| long == title).unwrap_or(LONGEST.len()));
    ladder.run_together(steps, AT_ONCE);
}

fn root_tests(which: &[String]) -> Command {
    let mut cargo = cargo();
    cargo.args(["test", "--quiet"]).args(which).args(["--", "--ignored"]);
    cargo
}

fn scenarios(arguments: &[&str], folder: &str) -> Command {
    let mut scenario = lab::lab("scenario");
    scenario.args(arguments).arg(root().join("lab").join(folder));
    scenario
}

fn rootless() -> ExitCode {
    let mut ladder = Ladder::default();
    lint::add_to(&mut ladder);
    unit_tests(&mut ladder);
    for left_out in ["root tests", "scenario", "replay"] {
        ladder.leave_out(left_out, "--no-root");
    }
    ladder.finish()
}

fn unit_tests(ladder: &mut Ladder) {
    let mut cargo = cargo();
    cargo.args(["test", "--quiet", "--no-fail-fast"]);
    ladder.run("unit tests", Counted::ByOutput, cargo);
}

/// Replays every recording.
fn recordings(ladder: &mut Ladder) {
    match list(&root().join("lab/traces")) {
        Ok(recordings) => {
            let mut lab = lab::lab("replay");
            lab.args(recordings.iter().filter(|recording| recording.is_dir()));
            ladder.run("replay", Counted::ByOutput, lab);
        }
        Err(error) => ladder.check("replay", || Err(error)),
    }
}
