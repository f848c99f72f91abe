//! Upgrades from the release with map layout v1 and rollbacks to it, under traffic, with that release's own binary.
//!
//! Commit 431e408 is the last one with that layout. Build its agent, then run these tests:
//!
//! ```text
//! git worktree add /tmp/v1 431e408 && (cd /tmp/v1 && cargo xtask build)
//! EPGUARD_V1=/tmp/v1/target/debug/epguard cargo test -p epguard-lab --test lives -- --ignored --nocapture upgrade
//! ```
//!
//! Without that variable they test nothing.

use crate::takeover::{Traffic, denies, stage};
use epguard_lab::scenario::stage::Stage;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 10;

/// Starts the old binary without the flags that it does not have.
const WRAPPER: &str = r#"#!/bin/sh
for argument; do
    shift
    case "$previous$argument" in
    --clsact-delay*) ;;
    --cgroup-root) set -- "$@" --cgroup ;;
    *) set -- "$@" "$argument" ;;
    esac
    case "$argument" in --clsact-delay) previous=$argument ;; *) previous= ;; esac
done
exec "$EPGUARD_V1" "$@"
"#;

/// Both releases' binaries.
struct Releases {
    old: PathBuf,
    new: PathBuf,
}

impl Releases {
    fn find(stage: &Stage) -> Self {
        let old = stage.workdir.path().join("epguard-v1");
        fs::write(&old, WRAPPER).unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o755)).unwrap();
        let new = epguard_lab::scenario::process::epguard().unwrap();
        Self { old, new }
    }

    /// Kills the agent and starts that of the old release; until it denies.
    fn roll_back(&self, stage: &mut Stage) {
        stage.agent.kill();
        stage.agent.replace_program(&self.old);
        stage.agent.start_again().unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        while !stage.agent.dump().is_ok_and(|dump| denies(&dump)) {
            assert!(Instant::now() < deadline, "{}", stage.agent.log());
            sleep(Duration::from_millis(10));
        }
        let left = directories(stage.agent.pin_dir());
        assert_eq!(left, ["clsact", "v1"], "{}", stage.agent.log());
    }

    /// Kills the agent and starts that of the new release; until it has seen everything.
    fn upgrade(&self, stage: &mut Stage) {
        stage.agent.kill();
        sleep(Duration::from_millis(fastrand::u64(0..400)));
        stage.agent.replace_program(&self.new);
        stage.agent.start_again().unwrap();
        stage.catch_up().unwrap();
        let left = directories(stage.agent.pin_dir());
        assert_eq!(left, ["clsact", "v2"], "{}", stage.agent.log());
    }
}

fn directories(pin_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(pin_dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
#[ignore = "needs root, and a binary of another release in EPGUARD_V1"]
fn ten_upgrades_from_layout_v1_let_nothing_stale_through_and_rollbacks_deny_nothing_wrong() {
    if std::env::var_os("EPGUARD_V1").is_none() {
        eprintln!("EPGUARD_V1 names no binary: nothing is tested");
        return;
    }
    let mut stage = stage();
    let releases = Releases::find(&stage);
    let traffic = Traffic::start(&stage);
    let (mut upgrades, mut rollbacks) = (Vec::new(), Vec::new());
    let mut before = 0;
    let mut got_through = |traffic: &Traffic| {
        let after = traffic.got_through();
        after - std::mem::replace(&mut before, after)
    };
    for _ in 0..ROUNDS {
        releases.roll_back(&mut stage);
        sleep(Duration::from_millis(fastrand::u64(50..250)));
        rollbacks.push(got_through(&traffic));
        releases.upgrade(&mut stage);
        sleep(Duration::from_millis(fastrand::u64(50..250)));
        upgrades.push(got_through(&traffic));
    }
    let (sent, rate) = traffic.stop();
    println!(
        "{sent} packets at {rate:.0} a second, 0 allowed lost; stale through at {ROUNDS} upgrades {upgrades:?}, at as many rollbacks {rollbacks:?}"
    );
    assert_eq!(upgrades.iter().sum::<usize>(), 0, "stale packets after upgrades");
}
