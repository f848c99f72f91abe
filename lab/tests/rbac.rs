//! The real agent under the role that `deploy/` gives it, at an API server that enforces it.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod agent;

use agent::{World, dead_pod, service, slice};
use epguard_lab::api::{Kind, yaml};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Everything that the agent may, in whatever namespace.
fn role() -> Value {
    let text = include_str!("../../deploy/base/rbac.yaml");
    let documents = yaml::documents(text).unwrap();
    let both = documents
        .iter()
        .filter(|document| ["ClusterRole", "Role"].contains(&document["kind"].as_str().unwrap()));
    let rules: Vec<&Value> = both.flat_map(|role| role["rules"].as_array().unwrap()).collect();
    json!({"rules": rules})
}

/// As the `DaemonSet` has it.
const FLEET: [&str; 2] = ["--fleet-config", "epguard/epguard"];

/// Three dead pods that a Service lists: more than the breaker lets one list deny.
fn mass(name: &str) -> World {
    let world = World::new(name);
    world.store.ensure_namespace("shop").unwrap();
    let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"},
        "spec": {"podCIDRs": ["10.244.1.0/24"]}, "status": {}});
    world.store.apply(node).unwrap();
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    for number in 1..=3 {
        let (name, ip) = (format!("a{number}"), format!("10.244.1.1{number}"));
        let dead = world.store.apply(dead_pod(&name, &ip)).unwrap();
        let uid = &dead["metadata"]["uid"];
        let slice = slice(
            &format!("web-{number}"),
            "web",
            &ip,
            uid,
            &json!([{"port": 8080}]),
        );
        world.store.apply(slice).unwrap();
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_agent_needs_nothing_beyond_its_role() {
    let mut world = mass("rbac");
    world.server.access().bind(&role()).unwrap();
    let kubeconfig = world.server.kubeconfig();
    world.start(&kubeconfig, &FLEET);
    world.until("synced", |status| status.synced);
    // Holds the second list back, so that the breaker raises its alarm, which is an Event.
    world
        .server
        .faults(|faults| faults.delay = Duration::from_secs(2));
    let begun = Instant::now();
    while world.store.list(Kind::Event).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", world.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.store.list(Kind::Event)[0]["reason"], "BreakerTripped");
    world.until("denying under a lease", |status| {
        status.breaker.is_empty() && !status.services.is_empty() && status.lease_ms > 0
    });
    assert_eq!(world.server.access().refused(), [""; 0]);
    // A lost watch is resumed, an expired one listed again.
    world.server.faults(|faults| faults.delay = Duration::ZERO);
    world.server.reset_connections();
    world.until("back", |status| {
        status
            .watches
            .values()
            .all(|watch| watch.up && watch.restarts == 1)
    });
    assert_eq!(world.server.access().refused(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_role_holds_nothing_that_the_agent_does_not_need() {
    for missing in [
        "list /pods",
        "watch /services",
        "list /nodes",
        "watch /namespaces",
        "list discovery.k8s.io/endpointslices",
        "watch /configmaps",
    ] {
        let mut world = mass("rbac-less");
        world.server.access().bind(&without(missing)).unwrap();
        let kubeconfig = world.server.kubeconfig();
        world.start(&kubeconfig, &FLEET);
        let resource = match missing.rsplit('/').next().unwrap() {
            "configmaps" => "configmaps(fleet)",
            resource => resource,
        };
        world.until("told of the refusal", |status| {
            status
                .watches
                .get(resource)
                .is_some_and(|watch| watch.error.is_some())
        });
        let refused = world.server.access().refused();
        let all = refused.iter().all(|other| other == missing);
        assert!(all && !refused.is_empty(), "{missing}: {refused:?}");
    }
}

/// The role without one verb on one resource.
fn without(missing: &str) -> Value {
    let (verb, resource) = missing.split_once(' ').unwrap();
    let (group, resource) = resource.split_once('/').unwrap();
    let mut rules = Vec::new();
    for rule in role()["rules"].as_array().unwrap() {
        for other in rule["resources"].as_array().unwrap() {
            let mut verbs = rule["verbs"].as_array().unwrap().clone();
            verbs.retain(|v| !(*v == verb && other == resource && rule["apiGroups"] == json!([group])));
            rules.push(json!({"apiGroups": rule["apiGroups"], "resources": [other], "verbs": verbs}));
        }
    }
    json!({"rules": rules})
}
