//! Modes for all nodes from one `ConfigMap`, told to the real agent.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod agent;

use agent::World;
use epguard::shared::status::Watch;
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

fn until(world: &mut World, mode: &str, source: &str) {
    world.until(&format!("in mode {mode} by {source}"), |status| {
        status.mode == mode && status.mode_source == source
    });
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_fleet_goes_to_enforce_canaries_first_and_back_with_one_change_each() {
    let mut world = World::new("fleet");
    world.store.ensure_namespace("epguard").unwrap();
    world.store.apply(node(&json!({}))).unwrap();
    world.store.apply(wish(&json!({"mode": "observe"}))).unwrap();
    let kubeconfig = world.server.kubeconfig();
    world.start(&kubeconfig, &["--fleet-config", "epguard/epguard"]);
    until(&mut world, "observe", "configmap");

    let canaries = json!({"mode": "observe", "canary-mode": "enforce", "terminated": "off"});
    world.store.apply(wish(&canaries)).unwrap();
    world.until("told of terminated", |status| {
        status.reasons["terminated"] == "off"
    });
    assert_eq!(world.status().mode, "observe", "this node is no canary");
    let begun = Instant::now();
    world
        .store
        .apply(node(&json!({"epguard.io/canary": "true"})))
        .unwrap();
    until(&mut world, "enforce", "configmap, canary");
    println!("a label puts a node into enforce within {:?}", begun.elapsed());
    assert_eq!(world.status().reasons["terminated"], "off");

    // Of a map with a mistake only what lowers a mode counts.
    let mistaken = json!({"mode": "of", "canary-mode": null, "terminated": "enforce", "reused": "off"});
    world.store.apply(wish(&mistaken)).unwrap();
    let status = world.until("told of the mistake", |status| status.config_map.is_some());
    let reasons = ["terminated", "reused"].map(|reason| &*status.reasons[reason]);
    assert_eq!((&*status.mode, reasons), ("enforce", ["off", "off"]));
    assert!(
        world
            .log()
            .contains("mode: \"of\" is not a mode: off, observe or enforce"),
        "{}",
        world.log()
    );

    let map = ObjectRef::new(Kind::ConfigMap, "epguard", "epguard");
    world.store.delete(&map, None).unwrap();
    until(&mut world, "enforce", "flags");
    assert_eq!(world.status().reasons["terminated"], "enforce", "as by its flags");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_map_that_may_not_be_read_never_raises_the_mode_over_the_flags() {
    let mut world = World::new("unread");
    world.store.ensure_namespace("epguard").unwrap();
    world.store.apply(node(&json!({}))).unwrap();
    world.store.apply(wish(&json!({"mode": "enforce"}))).unwrap();
    let kubeconfig = world.server.kubeconfig();
    let options = ["--fleet-config", "epguard/epguard", "--mode", "observe"];
    world.start(&kubeconfig, &options);
    until(&mut world, "enforce", "configmap");

    world.stop();
    world
        .server
        .faults(|faults| faults.forbidden = [Kind::ConfigMap].into());
    world.start(&kubeconfig, &options);
    let status = world.until("refused", |status| {
        let refused = |watch: &Watch| {
            watch
                .error
                .as_ref()
                .is_some_and(|error| error.contains("forbidden"))
        };
        status.synced && status.watches.get("configmaps(fleet)").is_some_and(refused)
    });
    assert_eq!(
        (&*status.mode, &*status.mode_source),
        ("observe", "the lower of flags and maps")
    );
    assert!(status.config_map.unwrap().contains("was not read yet"));
    world.server.faults(|faults| faults.forbidden.clear());
    until(&mut world, "enforce", "configmap");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn an_agent_without_a_hook_ends_when_the_config_map_asks_to_enforce() {
    let mut world = World::new("unhooked");
    world.store.ensure_namespace("epguard").unwrap();
    world.store.apply(node(&json!({}))).unwrap();
    for interface in ["va", "vb"] {
        // Where clsact would be.
        let taken = ["qdisc", "add", "dev", interface, "ingress"];
        assert!(world.netns.command("tc").args(taken).status().unwrap().success());
    }
    let kubeconfig = world.server.kubeconfig();
    let config_map = ["--fleet-config", "epguard/epguard", "--mode", "observe"];
    let hooks = ["--hooks", "clsact", "--pod-interfaces", "v*"];
    world.start(&kubeconfig, &[config_map, hooks].concat());
    world.until("without hooks", |status| {
        status.synced && !status.interfaces.is_empty() && status.interfaces.iter().all(|at| !at.attached)
    });
    world.store.apply(wish(&json!({"mode": "enforce"}))).unwrap();
    let said = world.outcome();
    assert!(
        said.contains("no interface can be hooked, so nothing would be enforced"),
        "{said}"
    );
}
