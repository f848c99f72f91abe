//! `cargo xtask test`: all steps, cheapest first. Every step runs, and the sum follows.

mod groups;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::build;
use crate::files::list;
use crate::lab;
use crate::ladder::{Count, Counted, Ladder, Planned};
use crate::lint;
use crate::process::{cargo, command, is_root, root, run as run_command};
use crate::setup;
use groups::Group;

/// The steps that take longest.
const LONGEST: [&str; 4] = [
    "root: intents",
    "root: lives",
    "root: programs",
    "root: lifecycle",
];

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
    // The build replaces this program's file, which the step starts by its path.
    let own_verbs = lint::own_verbs()?;
    let mut ladder = Ladder::default();
    ladder.check("build", || {
        build::object(&ebpf)?;
        // Builds all binaries that the tests start, with the same features of dependencies
        // everywhere: `--package` would choose others, and build them all once more.
        run_command(cargo().args(["test", "--quiet", "--no-run"]))?;
        Ok(Count {
            passed: 1,
            failed: 0,
        })
    });
    let checks = checks(&mut ladder, own_verbs);
    match stories().and_then(|stories| Ok((stories, tests()?))) {
        Ok((stories, tests)) => {
            ladder.run_together([(stories, 1), (checks, 1)]);
            ladder.run_together([(tests, 5)]);
        }
        Err(error) => ladder.check("stories and tests", || Err(error)),
    }
    Ok(ladder.finish())
}

/// Only checks and unit tests.
fn rootless() -> ExitCode {
    let mut ladder = Ladder::default();
    let mut steps = lint::plan(&mut ladder);
    steps.push(unit_tests());
    ladder.run_together([(steps, 1)]);
    for left_out in ["root tests", "scenario", "replay"] {
        ladder.leave_out(left_out, "--no-root");
    }
    ladder.finish()
}

/// Replays every recording, and plays the stories. At sockets and at clsact one variant of each
/// story is enough: the rest of the agent is the same. At clsact it has all capabilities.
fn stories() -> Result<Vec<Planned>> {
    let recordings = list(&root().join("lab/traces"))?;
    let mut replay = lab::lab("replay");
    replay.args(recordings.iter().filter(|recording| recording.is_dir()));
    Ok(vec![
        Planned::new("replay", Counted::ByOutput, replay),
        story("scenario", "scenarios", &["--least-privilege"]),
        story(
            "scenario, at sockets",
            "scenarios-at-sockets",
            &["--least-privilege"],
        ),
        story(
            "scenario, socket-lb",
            "scenarios",
            &["--socket-lb", "--sample", "--least-privilege"],
        ),
        story(
            "scenario, clsact",
            "scenarios",
            &["--hooks", "clsact", "--sample"],
        ),
    ])
}

/// Plays the stories of a folder. If a few fail beside others, they run once more, one at a time:
/// they wait for what a busy machine may be late with.
fn story(title: &str, folder: &str, arguments: &[&str]) -> Planned {
    let mut scenario = lab::lab("scenario");
    scenario
        .args(["--attempts", "2"])
        .args(arguments)
        .arg(root().join("lab").join(folder));
    Planned::new(title, Counted::ByOutput, scenario)
}

/// What takes the time that the stories leave: most of theirs is spent waiting to see that no
/// packet comes. It yields to them, since an agent is late with everything if the kernel is late to
/// verify its programs.
fn checks(ladder: &mut Ladder, own_verbs: Vec<Planned>) -> Vec<Planned> {
    let mut steps = lint::plan(ladder);
    steps.extend(own_verbs);
    for step in &mut steps {
        let mut nice = command("nice");
        nice.args(["-n", "19"])
            .arg(step.command.get_program())
            .args(step.command.get_args());
        for (name, value) in step.command.get_envs() {
            _ = match value {
                Some(value) => nice.env(name, value),
                None => nice.env_remove(name),
            };
        }
        step.command = nice;
    }
    steps
}

fn unit_tests() -> Planned {
    let mut cargo = cargo();
    cargo.args(["test", "--quiet", "--no-fail-fast"]);
    Planned::new("unit tests", Counted::ByOutput, cargo)
}

/// The root tests that these arguments of `cargo test` select.
fn root_tests(title: &str, which: &[&str]) -> Planned {
    let mut cargo = cargo();
    cargo
        .args(["test", "--quiet"])
        .args(which)
        .args(["--", "--ignored"]);
    Planned {
        again: true,
        ..Planned::new(title, Counted::ByOutput, cargo)
    }
}

/// Unit tests, and those that make namespaces and load programs. Most of these wait, for timers of
/// the kernel or to see that no packet comes, so several run at a time, the longest first.
fn tests() -> Result<Vec<Planned>> {
    let mut steps = Vec::new();
    for Group { binary, module } in groups::all()? {
        // The name of the module selects its tests, and no other group's of the binary.
        let which = ["--test", &binary, &format!("{module}::")];
        steps.push(root_tests(&format!("root: {module}"), &which));
    }
    steps.push(root_tests("root: libraries", &["--lib", "--bins"]));
    steps.sort_by_key(|step| {
        LONGEST
            .iter()
            .position(|long| *long == step.title)
            .unwrap_or(LONGEST.len())
    });
    steps.insert(0, unit_tests());
    Ok(steps)
}
