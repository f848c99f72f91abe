//! `cargo xtask test`: all steps, cheapest first. Every step runs, and the sum follows.

mod groups;

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::build;
use crate::files::list;
use crate::lab;
use crate::ladder::{Count, Counted, Ladder, Titled};
use crate::lint;
use crate::process::{cargo, command, is_root, root, run as run_command};
use crate::setup;

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
    match queues() {
        Ok([stories, checks, root_tests]) => {
            ladder.run_together([(stories, 1), (checks, 1)]);
            ladder.run_together([(root_tests, 4)]);
        }
        Err(error) => ladder.check("stories and tests", || Err(error)),
    }
    Ok(ladder.finish())
}

/// Only checks and unit tests.
fn rootless() -> ExitCode {
    let mut ladder = Ladder::default();
    lint::add_to(&mut ladder);
    ladder.run("unit tests", Counted::ByOutput, unit_tests());
    for left_out in ["root tests", "scenario", "replay"] {
        ladder.leave_out(left_out, "--no-root");
    }
    ladder.finish()
}

fn queues() -> Result<[Vec<Titled>; 3]> {
    Ok([stories()?, checks(), on_the_kernel()?])
}

/// Replays every recording, and plays the stories. At sockets and at clsact one variant of each story is enough: the rest of
/// the agent is the same. At clsact it has all capabilities.
fn stories() -> Result<Vec<Titled>> {
    let recordings = list(&root().join("lab/traces"))?;
    let mut replay = lab::lab("replay");
    replay.args(recordings.iter().filter(|recording| recording.is_dir()));
    let story = |title: &str, folder: &str, arguments: &[&str]| {
        let mut scenario = lab::lab("scenario");
        scenario.args(arguments).arg(root().join("lab").join(folder));
        (title.into(), scenario)
    };
    Ok(vec![
        ("replay".into(), replay),
        story("scenario", "scenarios", &["--least-privilege"]),
        story("scenario, at sockets", "scenarios-at-sockets", &["--least-privilege"]),
        story("scenario, socket-lb", "scenarios", &["--socket-lb", "--sample", "--least-privilege"]),
        story("scenario, clsact", "scenarios", &["--hooks", "clsact", "--sample"]),
    ])
}

/// What takes the time that the stories leave: most of theirs is spent waiting to see that no packet comes. It yields to them,
/// since an agent is late with everything if the kernel is late to verify its programs.
fn checks() -> Vec<Titled> {
    let yielding = |title: &str, of: &Command| {
        let mut nice = command("nice");
        nice.args(["-n", "19"]).arg(of.get_program()).args(of.get_args());
        (title.into(), nice)
    };
    let mut lint = cargo();
    lint.args(["xtask", "lint"]);
    vec![yielding("unit tests", &unit_tests()), yielding("lint", &lint)]
}

fn unit_tests() -> Command {
    let mut cargo = cargo();
    cargo.args(["test", "--quiet", "--no-fail-fast"]);
    cargo
}

/// Steps that make namespaces and load programs. Most of them wait, for timers of the kernel or to see that no packet comes,
/// so several run at a time, the longest first.
fn on_the_kernel() -> Result<Vec<Titled>> {
    let root_tests = |which: &[String]| {
        let mut cargo = cargo();
        cargo.args(["test", "--quiet"]).args(which).args(["--", "--ignored"]);
        cargo
    };
    let groups = groups::all()?;
    let mut steps: Vec<Titled> =
        groups.iter().map(|group| (group.title(), root_tests(&group.which()))).collect();
    steps.push(("root: libraries".into(), root_tests(&["--lib", "--bins"].map(Into::into))));
    steps.sort_by_key(|(title, _)| LONGEST.iter().position(|long| long == title).unwrap_or(LONGEST.len()));
    Ok(steps)
}
