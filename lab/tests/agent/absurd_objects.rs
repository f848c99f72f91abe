//! Objects with absurd fields, and a wrong token, at the real agent: it counts a skip or logs one
//! line, denies nothing because of them, and still denies other provable cases.

use super::world::{World, dead_pod, service, slice};
use epguard_core::facts::Watched;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn malformed_objects_are_skipped_and_counted_and_a_proven_denial_is_in_force() {
    let mut world = World::new("absurd");
    let ports = json!([{"port": 8080}]);
    world.store.ensure_namespace("shop").unwrap();
    world.store.apply(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"},
        "spec": {"podCIDRs": ["10.244.1.0/24", "banana/99"]}, "status": {"addresses": [{"address": "banana"}]}})).unwrap();
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    world.store.apply(service("odd", "banana")).unwrap();
    let dead = world.store.apply(dead_pod("a", "10.244.1.10")).unwrap();
    let uid = &dead["metadata"]["uid"];
    world
        .store
        .apply(slice("web-1", "web", "10.244.1.10", uid, &ports))
        .unwrap();
    world
        .store
        .apply(slice("odd-4", "odd", "banana", uid, &ports))
        .unwrap();
    world
        .store
        .apply(slice("odd-1", "odd", "10.244.1.10", &json!(""), &ports))
        .unwrap();
    let many: Vec<Value> = (1..=10_000).map(|port| json!({"port": port})).collect();
    world
        .store
        .apply(slice("odd-2", "odd", "10.244.1.10", uid, &json!(many)))
        .unwrap();
    let strange = json!([{"port": 0}, {"port": 70000}, {"port": -1}, {"port": 80, "protocol": "QUIC"}, {"port": null}]);
    world
        .store
        .apply(slice("odd-3", "odd", "10.244.1.10", uid, &strange))
        .unwrap();
    let mut named = slice("web-2", "web", "example.com", uid, &ports);
    named["addressType"] = json!("FQDN");
    world.store.apply(named).unwrap();
    let mut banana = dead_pod("banana", "banana");
    banana["metadata"]["deletionTimestamp"] = json!("yesterday");
    world.store.apply(banana).unwrap();
    let mut numbers = dead_pod("numbers", "10.244.1.11");
    numbers["metadata"]["labels"] = json!({"app": 7});
    world.store.apply(numbers).unwrap();
    world.start(&[]);
    let status = world.until("synced with one pod skipped", |status| {
        status.synced && status.watches[&Watched::Pods].skipped == 1
    });
    assert!(status.watches.values().all(|watch| watch.up), "{status:?}");
    let pins = world.dir.join("bpf/epguard");
    let dump = world.run(&["dump", "-o", "json", "--pin-dir", pins.to_str().unwrap()]);
    let dump: Value = serde_json::from_slice(&dump.stdout).unwrap();
    let denied = dump["denied"].as_array().unwrap().iter();
    let denied: Vec<_> = denied
        .map(|row| json!([row["service"], row["ip"], row["port"]]))
        .collect();
    assert_eq!(denied, [json!(["shop/web", "10.244.1.10", 8080])]);
    let log = world.log();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(
        log.lines()
            .filter(|line| line.contains("object skipped"))
            .count(),
        1,
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_wrong_token_is_reported_for_each_watch() {
    let mut world = World::new("token");
    let mut config: Value = serde_json::from_str(&world.server.kubeconfig()).unwrap();
    config["users"][0]["user"]["token"] = json!("wrong");
    world.start_as(&config.to_string(), &[], |_| {});
    let status = world.until("refused", |status| {
        status.watches.values().all(|watch| watch.error.is_some())
    });
    let errors: Vec<&String> = status
        .watches
        .values()
        .filter_map(|watch| watch.error.as_ref())
        .collect();
    assert!(
        errors
            .iter()
            .all(|error| error.contains("401") || error.contains("nauthorized")),
        "{errors:?}"
    );
    assert!(!status.synced);
}
