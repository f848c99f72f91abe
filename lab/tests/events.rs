//! Events of the Kubernetes API about denied packets, by the real agent.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod agent;

use agent::World;
use agent::stale::deny;
use epguard::status::{self, Request};
use epguard_lab::api::{Kind, yaml};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const ROLE: &str = include_str!("../../deploy/base/rbac.yaml");

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_thousand_denied_packets_are_one_event_on_the_service_and_one_on_the_pod_that_was_hit() {
    let mut world = denying("events", &[]);
    reuse(&mut world);
    call(&world, 1000);
    until(&world, "told", |world| events(world).len() == 2);
    // A minute after the first word the count is that of all of them.
    until(&world, "counted", |world| {
        let reported = reported(world);
        let counted = |event: &Value| event["series"]["count"] == reported;
        events(world).iter().all(counted)
    });
    let reported = reported(&world);
    assert!(reported >= 100, "{reported}");
    let note = "Service shop/web still sends to endpoint 10.244.1.10 for pod shop/a, which has ended; pod team-b/b has that \
                IP now (reused). On node n the packets are dropped. Why: epguard why 10.244.1.10 --service shop/web";
    let expected = |kind: &str, namespace: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{name}.*"), "namespace": namespace},
            "action": "DenyPackets", "reason": "StaleEndpointDenied", "type": "Warning", "note": note,
            "eventTime": "*", "series": {"count": reported, "lastObservedTime": "*"},
            "regarding": {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name, "uid": "*"},
            "reportingController": "epguard", "reportingInstance": "n",
        })
    };
    let seen: Vec<Value> = events(&world)
        .into_iter()
        .map(|event| masked(&world, event))
        .collect();
    assert_eq!(
        seen,
        [expected("Service", "shop", "web"), expected("Pod", "team-b", "b")]
    );
    let audit = world.server.audit();
    let [created, patched] = ["create", "patch"].map(|verb| audit.count(verb, "/events"));
    // A second minute begins where the machine is that slow.
    assert!(created == 2 && (2..=4).contains(&patched), "{created} {patched}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn where_events_are_forbidden_that_is_said_once_and_everything_else_goes_on() {
    let mut world = denying("events-forbidden", &["create", "patch"]);
    call(&world, 1);
    until(&world, "refused", |world| {
        world.log().contains("cannot create Events")
    });
    reuse(&mut world);
    call(&world, 1);
    until(&world, "reported", |world| {
        world.log().contains("hit=\"team-b/b\"")
    });
    // Time enough to try again.
    let confirmed = world.server.audit().count("list", "/pods");
    until(&world, "confirmed", |world| {
        world.server.audit().count("list", "/pods") > confirmed + 2
    });
    assert_eq!(
        world.server.access().refused(),
        ["create events.k8s.io/events"],
        "{}",
        world.log()
    );
    let log = world.log();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("Events")).collect();
    assert!(
        said.len() == 1
            && said[0].contains("allow the agent's account create and patch on events in events.k8s.io"),
        "{said:?}"
    );
    until(&world, "denying", |world| world.status().lease_ms > 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn nobody_is_told_what_the_operator_does_not_want_told() {
    for what in ["none", "breaker"] {
        let mut world = World::new("events-off");
        start(&mut world, &["--events", what]);
        deny(&mut world);
        call(&world, 1);
        until(&world, "reported", |world| world.log().contains("dead-backend"));
        let confirmed = world.server.audit().count("list", "/pods");
        until(&world, "confirmed", |world| {
            world.server.audit().count("list", "/pods") > confirmed + 2
        });
        assert_eq!(world.server.audit().count("create", "/events"), 0, "{what}");
    }
}

/// An agent under its role, without these verbs on Events, on a node with a denial.
fn denying(name: &str, forbidden: &[&str]) -> World {
    let mut world = World::new(name);
    for mut role in yaml::documents(ROLE).unwrap() {
        for rule in role["rules"].as_array_mut().into_iter().flatten() {
            if rule["resources"] == json!(["events"]) {
                let verbs = rule["verbs"].as_array_mut().unwrap();
                verbs.retain(|verb| !forbidden.iter().any(|forbidden| verb == forbidden));
            }
        }
        if role["kind"].as_str().unwrap().ends_with("Role") {
            world.server.access().bind(&role).unwrap();
        }
    }
    // Before the agent starts: of a Namespace that it has not seen, nothing is denied.
    world.store.ensure_namespace("team-b").unwrap();
    start(&mut world, &[]);
    deny(&mut world);
    world
}

/// The view is confirmed every three seconds.
fn start(world: &mut World, options: &[&str]) {
    let kubeconfig = world.server.kubeconfig();
    let short = ["--max-view-age", "10", "--lease", "10"];
    world.start(&kubeconfig, &[&short[..], options].concat());
}

/// A pod of the Namespace `team-b` gets the IP.
fn reuse(world: &mut World) {
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b", "namespace": "team-b"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.244.1.10"}]},
    });
    world.store.apply(pod).unwrap();
    world.until("reused", |status| {
        status.pods.values().any(|name| name == "team-b/b")
    });
}

/// Sends SYNs to the Service, from a process on the node.
fn call(world: &World, times: usize) {
    let service: SocketAddr = "10.96.0.1:80".parse().unwrap();
    let answered = world.netns.run(|| {
        let connect = |_| TcpStream::connect_timeout(&service, Duration::from_millis(1));
        (0..times).flat_map(connect).count()
    });
    assert_eq!(answered.unwrap(), 0);
}

/// Packets that the programs have told the agent of.
fn reported(world: &World) -> u64 {
    let status = status::ask(&world.dir, &Request::Drops).unwrap();
    let drops = status.drops.unwrap();
    drops.iter().map(|dropped| dropped.reported).sum()
}

/// In the order of their Namespaces.
fn events(world: &World) -> Vec<Value> {
    world.store.list(Kind::Event)
}

/// Without what differs from run to run; that the UID is that of the object is looked at here.
fn masked(world: &World, mut event: Value) -> Value {
    let metadata = event["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| field == "name" || field == "namespace");
    let name = metadata["name"].as_str().unwrap().split('.').next().unwrap();
    metadata["name"] = format!("{name}.*").into();
    let kind: Kind = event["regarding"]["kind"].as_str().unwrap().parse().unwrap();
    let about = |object: &&Value| object["metadata"]["uid"] == event["regarding"]["uid"];
    let objects = world.store.list(kind);
    let object = objects.iter().find(about).expect("the UID of an object");
    assert_eq!(object["metadata"]["name"], event["regarding"]["name"]);
    event["regarding"]["uid"] = "*".into();
    for time in ["/eventTime", "/series/lastObservedTime"] {
        let time = event.pointer_mut(time).unwrap();
        assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
        *time = "*".into();
    }
    event
}

fn until(world: &World, description: &str, wanted: impl Fn(&World) -> bool) {
    let begun = Instant::now();
    while !wanted(world) {
        let seen = events(world);
        assert!(
            begun.elapsed() < Duration::from_secs(90),
            "not {description}: {seen:#?}\n{}",
            world.log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
