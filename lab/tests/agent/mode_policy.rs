//! Modes for all nodes from one `ConfigMap`, with the real agent.

use super::world::World;
use epguard_common::{Mode, Reason};
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
