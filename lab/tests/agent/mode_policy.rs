//! Modes for all nodes from one `ConfigMap`, with the real agent.

use super::rbac::{bind_without, mass};
use super::world::World;
use epguard::shared::status::{ActionSource, Status};
use epguard_common::{Action, Mode, Reason};
use epguard_core::facts::Watched;
use epguard_lab::api::{Kind, ObjectRef};
use serde_json::{Value, json};
use std::time::Instant;

fn wish(data: &Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "epguard", "namespace": "epguard"}, "data": data})
}

fn node(labels: &Value) -> Value {
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "labels": labels}, "spec": {}, "status": {}})
}

fn until(world: &mut World, mode: Mode, source: &str) {
    world.until(&format!("in mode {mode} by {source}"), |status| {
        status.mode == Some(mode) && status.mode_source.as_str() == source
    });
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_mode_policy_raises_canaries_first_and_lowers_all_with_one_change_each() {
    let mut world = World::new("fleet");
    world.store.ensure_namespace("epguard").unwrap();
    world.store.apply(node(&json!({}))).unwrap();
    world
        .store
        .apply(wish(&json!({"mode": "observe"})))
        .unwrap();
    world.start(&["--mode-policy", "epguard/epguard"]);
    until(&mut world, Mode::Observe, "mode policy");

    let canaries = json!({"mode": "observe", "canary-mode": "enforce", "terminated": "off"});
    world.store.apply(wish(&canaries)).unwrap();
    world.until("told of terminated", |status| {
        status.reasons[&Reason::Terminated] == Mode::Off
    });
    assert_eq!(
        world.status().mode,
        Some(Mode::Observe),
        "this node is no canary"
    );
    let begun = Instant::now();
    world
        .store
        .apply(node(&json!({"epguard.io/canary": "true"})))
        .unwrap();
    until(&mut world, Mode::Enforce, "mode policy, canary");
    println!(
        "a label puts a node into enforce within {:?}",
        begun.elapsed()
    );
    assert_eq!(world.status().reasons[&Reason::Terminated], Mode::Off);

    // From a map with a mistake only values that lower a mode are used.
    let mistaken =
        json!({"mode": "of", "canary-mode": null, "terminated": "enforce", "reused": "off"});
    world.store.apply(wish(&mistaken)).unwrap();
    let status = world.until("told of the mistake", |status| status.mode_policy.is_some());
    let reasons = [Reason::Terminated, Reason::Reused].map(|reason| status.reasons[&reason]);
    assert_eq!(
        (status.mode, reasons),
        (Some(Mode::Enforce), [Mode::Off; 2])
    );
    assert!(
        world
            .log()
            .contains("mode: \"of\" is not a mode: off, observe or enforce"),
        "{}",
        world.log()
    );

    let map = ObjectRef::new(Kind::ConfigMap, "epguard", "epguard");
    world.store.delete(&map, None).unwrap();
    until(&mut world, Mode::Enforce, "flags");
    assert_eq!(
        world.status().reasons[&Reason::Terminated],
        Mode::Enforce,
        "as by its flags"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn an_unreadable_config_map_never_raises_the_mode_over_the_flags() {
    let mut world = World::new("unread");
    world.store.ensure_namespace("epguard").unwrap();
    world.store.apply(node(&json!({}))).unwrap();
    world
        .store
        .apply(wish(&json!({"mode": "enforce"})))
        .unwrap();
    let options = ["--mode-policy", "epguard/epguard", "--mode", "observe"];
    world.start(&options);
    until(&mut world, Mode::Enforce, "mode policy");

    world.stop();
    world
        .server
        .faults(|faults| faults.forbidden = [Kind::ConfigMap].into());
    world.start(&options);
    let status = world.until("refused", |status| {
        let is_refused = status
            .watches
            .get(&Watched::ModePolicy)
            .is_some_and(|watch| {
                watch
                    .error
                    .as_ref()
                    .is_some_and(|error| error.contains("forbidden"))
            });
        status.synced && is_refused && status.mode == Some(Mode::Observe)
    });
    assert_eq!(
        (status.mode, status.mode_source.as_str()),
        (Some(Mode::Observe), "the lower of flags and maps")
    );
    assert!(status.mode_policy.unwrap().contains("refuses ConfigMap"));
    world.server.faults(|faults| faults.forbidden.clear());
    until(&mut world, Mode::Enforce, "mode policy");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn an_agent_without_a_hook_ends_when_the_config_map_enforces() {
    let mut world = World::new("unhooked");
    world.store.ensure_namespace("epguard").unwrap();
    world.store.apply(node(&json!({}))).unwrap();
    for interface in ["va", "vb"] {
        // Occupies the place of clsact.
        let taken = ["qdisc", "add", "dev", interface, "ingress"];
        assert!(
            world
                .netns
                .command("tc")
                .args(taken)
                .status()
                .unwrap()
                .success()
        );
    }
    let mode_policy = ["--mode-policy", "epguard/epguard", "--mode", "observe"];
    let hooks = ["--hooks", "clsact", "--pod-interfaces", "v*"];
    world.start(&[mode_policy, hooks].concat());
    world.until("without hooks", |status| {
        status.synced
            && !status.interfaces.is_empty()
            && status.interfaces.iter().all(|at| !at.attached)
    });
    world
        .store
        .apply(wish(&json!({"mode": "enforce"})))
        .unwrap();
    let said = world.outcome();
    assert!(
        said.contains("no interface can be hooked, so nothing would be enforced"),
        "{said}"
    );
}

/// Writes the `ConfigMap`, and waits until the agent has it in its maps.
fn follow(world: &mut World, data: &Value) -> Status {
    let written = world.store.apply(wish(data)).unwrap();
    let version = written["metadata"]["resourceVersion"].as_str().unwrap();
    let version: u64 = version.parse().unwrap();
    world.until("following", |status| {
        let applied = status.applied.get(&Watched::ModePolicy);
        applied.is_some_and(|applied| *applied >= version)
    })
}

/// The action of a reason, and its source.
fn action(status: &Status, reason: Reason) -> (Action, ActionSource) {
    let shown = status.actions[&reason];
    (shown.action, shown.source)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn an_action_of_the_mode_policy_holds_until_a_command_and_again_after_a_restart() {
    use ActionSource::{Command, Flags, ModePolicy, Pinned};
    let mut world = World::new("actions");
    world.store.ensure_namespace("epguard").unwrap();
    let options = [
        "--mode-policy",
        "epguard/epguard",
        "--action",
        "terminated=drop",
    ];
    world.start(&options);
    let status = world.until("synced", |status| status.synced);
    assert_eq!(action(&status, Reason::Terminated), (Action::Drop, Flags));
    let reject = json!({"action": "reject", "terminated-action": "drop"});
    let status = follow(&mut world, &reject);
    assert_eq!(
        action(&status, Reason::Reused),
        (Action::Reject, ModePolicy)
    );
    assert_eq!(
        action(&status, Reason::Terminated),
        (Action::Drop, ModePolicy)
    );

    let pins = world.dir.join("bpf/epguard");
    let mut command = world.epguard();
    command.args(["action", "drop", "--pin-dir"]).arg(pins);
    assert!(command.status().unwrap().success());
    let other_key = json!({"action": "reject", "terminated-action": "drop", "mode": "observe"});
    let status = follow(&mut world, &other_key);
    assert_eq!(action(&status, Reason::Reused), (Action::Drop, Command));
    assert!(
        status
            .mode_policy
            .unwrap()
            .contains("an action was set by hand")
    );

    world.stop();
    world.start(&options);
    let mistaken = json!({"action": "rejct"});
    world.until("rejecting again", |status| {
        action(status, Reason::Reused) == (Action::Reject, ModePolicy)
    });
    let status = follow(&mut world, &mistaken);
    assert_eq!(
        action(&status, Reason::Reused),
        (Action::Reject, ModePolicy)
    );
    let problem = status.mode_policy.unwrap();
    assert!(
        problem.contains("action: \"rejct\" is not an action: drop or reject"),
        "{problem}"
    );

    world.stop();
    world
        .server
        .faults(|faults| faults.forbidden = [Kind::ConfigMap].into());
    world.start(&options);
    let status = world.until("synced", |status| status.synced);
    assert_eq!(action(&status, Reason::Reused), (Action::Reject, Pinned));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn an_agent_has_no_version_of_the_mode_policy_in_force_before_it_has_listed_everything() {
    let mut world = World::new("applied");
    world.store.ensure_namespace("epguard").unwrap();
    world
        .server
        .faults(|faults| faults.forbidden = [Kind::Pod].into());
    world.store.apply(wish(&json!({"mode": "off"}))).unwrap();
    world.start(&["--mode-policy", "epguard/epguard"]);
    let status = world.until("watching the ConfigMap", |status| {
        let watch = status.watches.get(&Watched::ModePolicy);
        watch.is_some_and(|watch| watch.up && watch.rv > 0)
    });
    assert_eq!(status.applied.get(&Watched::ModePolicy), None);
    assert_eq!(status.mode, Some(Mode::Enforce));
    world.server.faults(|faults| faults.forbidden.clear());
    let status = follow(&mut world, &json!({"mode": "off"}));
    assert_eq!(status.mode, Some(Mode::Off));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_release_of_the_mode_policy_ends_what_was_stopped_by_then_and_nothing_later() {
    let mut world = mass("release");
    world.store.ensure_namespace("epguard").unwrap();
    // No second list comes.
    bind_without(&world, &["list /pods"]);
    world.start(&["--mode-policy", "epguard/epguard"]);
    let stopping = |status: &Status, number: usize| {
        let mut services = status.breaker.iter();
        status.synced && services.any(|service| service.stopped == number)
    };
    let status = world.until("stopping", |status| stopping(status, 3));
    let version = status.breaker[0].resource_version;
    let earlier = json!({"breaker-release": format!("{} shop/web", version - 1)});
    let status = follow(&mut world, &earlier);
    assert!(stopping(&status, 3), "{:?}", status.breaker);
    let release = json!({"breaker-release": format!("{version} shop/web")});
    let status = follow(&mut world, &release);
    assert_eq!((status.breaker, status.mode_policy), (vec![], None));
    assert!(!status.services.is_empty());

    for number in 4..=6 {
        let ip = format!("10.244.1.1{number}");
        world.list_dead(&format!("a{number}"), &ip, "web", "TCP");
    }
    world.until("stopping again", |status| stopping(status, 3));
    let mut left = release;
    left["mode"] = "enforce".into();
    let status = follow(&mut world, &left);
    assert!(stopping(&status, 3), "{:?}", status.breaker);
    assert!(status.breaker[0].resource_version > version);
}
