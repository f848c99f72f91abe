//! Upgrades from the release with map layout v1 and rollbacks to it, under traffic, with that release's own binary.
//!
//! Commit 431e408 is the last one with that layout. Build its agent, then run these tests:
//!
//! ```text
//! git worktree add /tmp/v1 431e408 && (cd /tmp/v1 && cargo xtask build)
//! EPGUARD_V1=/tmp/v1/target/debug/epguard cargo test -p epguard-lab --test cluster -- --ignored --nocapture upgrade
//! ```
//!
//! Without that variable they test nothing.

use super::takeover::{Traffic, denies, stage};
use aya::programs::SchedClassifier;
use aya::programs::TcAttachType::{Egress, Ingress};
use epguard_lab::process::{epguard, output};
use epguard_lab::scenario::stage::Stage;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

const ROUNDS: usize = 10;

/// Starts the old binary without the flags that it lacks.
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
        let new = epguard().unwrap();
        Self { old, new }
    }

    /// Kills the agent and starts that of the old release; returns once it denies.
    fn roll_back(&self, stage: &mut Stage) {
        stage.agent.kill();
        stage.agent.replace_program(&self.old);
        stage.agent.start_again().unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        while !stage.agent.dump().is_ok_and(|dump| denies(&dump)) {
            assert!(Instant::now() < deadline, "{}", stage.agent.log());
            sleep(Duration::from_millis(10));
        }
        assert_alone(stage, "v1");
    }

    /// Kills the agent and starts that of the new release; returns once it has seen all objects.
    fn upgrade(&self, stage: &mut Stage) {
        stage.agent.kill();
        sleep(Duration::from_millis(fastrand::u64(0..400)));
        stage.agent.replace_program(&self.new);
        stage.agent.start_again().unwrap();
        stage.catch_up().unwrap();
        assert_alone(stage, "v2");
    }
}

/// Asserts that no other layout is pinned, and that no hook has two programs of ours.
fn assert_alone(stage: &Stage, layout: &str) {
    let entries = fs::read_dir(stage.agent.pin_dir()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pinned: BTreeSet<String> = names.collect();
    let expected = ["clsact", layout].map(str::to_owned);
    assert_eq!(pinned, expected.into(), "{}", stage.agent.log());
    let node = &stage.cluster.topology.node("node-a").unwrap().netns;
    for link in stage.cluster.links() {
        for (hook, direction) in [(Ingress, "ingress"), (Egress, "egress")] {
            let query = || SchedClassifier::query_tcx(link, hook);
            let (_, tcx) = node.run(query).unwrap().unwrap();
            let is_ours = |name: &str| name.starts_with("epguard_");
            let links = tcx
                .iter()
                .filter(|program| program.name_as_str().is_some_and(is_ours));
            let arguments = ["filter", "show", "dev", link, direction];
            let filters = output(node.command("tc").args(arguments)).unwrap();
            let ours = links.count() + filters.matches("direct-action").count();
            assert_eq!(ours, 1, "{layout} {link} {direction}: {filters}");
        }
    }
}

#[test]
#[ignore = "needs root, and a binary of another release in EPGUARD_V1"]
fn ten_upgrades_from_layout_v1_and_rollbacks_with_links() {
    let upgrades = upgrade_and_roll_back("tcx", "client");
    assert_eq!(upgrades, [0; ROUNDS], "stale packets after upgrades");
}

#[test]
#[ignore = "needs root, and a binary of another release in EPGUARD_V1"]
fn ten_upgrades_from_layout_v1_and_rollbacks_with_filters() {
    let upgrades = upgrade_and_roll_back("clsact", "client");
    assert_eq!(upgrades, [0; ROUNDS], "stale packets after upgrades");
}

/// The new agent's hooks miss calls of older sockets, so some of their datagrams pass for a while.
#[test]
#[ignore = "needs root, and a binary of another release in EPGUARD_V1"]
fn ten_upgrades_from_layout_v1_and_rollbacks_for_the_nodes_own_datagrams() {
    upgrade_and_roll_back("tcx", "node-a");
}

/// Asserts that no allowed packet is lost. Returns the stale packets at each upgrade. At rollbacks stale packets pass until
/// the old agent has proven the denial anew.
fn upgrade_and_roll_back(hooks: &str, from: &str) -> [usize; ROUNDS] {
    let mut upgrades = [0; ROUNDS];
    if std::env::var_os("EPGUARD_V1").is_none() {
        eprintln!("EPGUARD_V1 names no binary: nothing is tested");
        return upgrades;
    }
    let mut stage = stage(Some(hooks));
    let releases = Releases::find(&stage);
    let topology = &stage.cluster.topology;
    let client = topology.node(from).map(|node| node.netns.clone());
    let client = client.unwrap_or_else(|_| topology.pod(from).unwrap().netns.clone());
    let traffic = Traffic::start_in(&stage, &client);
    let mut rollbacks = [0; ROUNDS];
    let mut before = 0;
    let mut got_through = |traffic: &Traffic| {
        sleep(Duration::from_millis(fastrand::u64(50..250)));
        let after = traffic.got_through();
        after - std::mem::replace(&mut before, after)
    };
    for (upgrade, rollback) in upgrades.iter_mut().zip(&mut rollbacks) {
        releases.roll_back(&mut stage);
        *rollback = got_through(&traffic);
        releases.upgrade(&mut stage);
        *upgrade = got_through(&traffic);
    }
    let (sent, rate) = traffic.stop();
    println!(
        "--hooks {hooks}, from {from}: {sent} packets at {rate:.0} a second, 0 allowed lost; \
         stale through at {ROUNDS} upgrades {upgrades:?}, at as many rollbacks {rollbacks:?}"
    );
    let status = stage.agent.status_document().unwrap();
    assert_eq!(status["status"]["wrongDenies"], serde_json::json!({}));
    upgrades
}
