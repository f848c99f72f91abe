//! Modes for all nodes from one `ConfigMap`, told to the real agent.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod agent;

use agent::World;
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

    // A wish that nobody understands changes nothing.
    world.store.apply(wish(&json!({"mode": "of"}))).unwrap();
    world.until("told of the mistake", |status| {
        status.watches["configmaps(fleet)"].skipped > 0
    });
    assert_eq!(world.status().mode, "enforce");
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
