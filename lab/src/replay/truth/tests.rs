use super::*;
use crate::replay::stream::{ApiEvent, Change};
use serde_json::json;

const X: &str = "10.244.1.5";

/// Node events at 1, 2, 3... ms.
fn truth(lines: Vec<Value>) -> Truth {
    let pod = json!({"metadata": {"namespace": "ns", "name": "p", "uid": "uid-of-p"}});
    let kind = Kind::Pod;
    let change = Change::Applied(Object::new(pod));
    let mut instants = vec![(Duration::ZERO, What::Api(ApiEvent { kind, change }))];
    let times = (1..).map(Duration::from_millis);
    instants.extend(times.zip(lines.into_iter().map(What::Node)));
    Truth::of(&Recording { name: "test".into(), instants })
}

/// The holder of X at each of the first milliseconds.
fn held(truth: &Truth, times: std::ops::RangeInclusive<u64>) -> Vec<String> {
    let at = |ms| truth.holders(X.parse().unwrap(), Duration::from_millis(ms));
    let names = |pods: Vec<PodIdentity>| pods.into_iter().map(|pod| pod.name).collect::<Vec<_>>().join("+");
    times.map(|ms| names(at(ms))).collect()
}

fn ipam(op: &str, node: &str) -> Value {
    json!({"src": "ipam", "op": op, "node": node, "ip": X, "sandbox": format!("sandbox-{node}")})
}

fn ip(src: &str, op: &str, line: &str) -> Value {
    json!({"src": src, "op": op, "node": "a", "line": line})
}

fn cri(state: &str, created_us: u64, node: &str) -> Value {
    let id = format!("sandbox-{node}");
    let sandbox = json!({"id": id, "ns": "ns", "pod": "p", "uid": "uid-of-p", "ips": [X],
                         "state": state, "created_us": created_us});
    json!({"src": "cri", "kind": "sandbox-poll", "node": node, "wall_us": 10_000, "sandbox": sandbox})
}

#[test]
fn an_address_is_held_from_allocation_to_release() {
    let truth = truth(vec![
        ipam("alloc", "a"),
        cri("SANDBOX_READY", 9_000, "a"),
        cri("SANDBOX_NOTREADY", 9_000, "a"),
        ipam("free", "a"),
        cri("SANDBOX_READY", 9_000, "a"),
    ]);
    assert_eq!(held(&truth, 0..=5), ["", "ns/p", "ns/p", "ns/p", "", ""]);
    let holder = &truth.holders(X.parse().unwrap(), Duration::from_millis(1))[0];
    assert!(holder.uids.contains("uid-of-p"));
}

#[test]
fn a_sandbox_older_than_the_recording_holds_its_address_from_the_beginning() {
    let truth = truth(vec![ipam("free", "b"), cri("SANDBOX_READY", 0, "a"), cri("SANDBOX_NOTREADY", 0, "a")]);
    assert_eq!(held(&truth, 0..=3), ["ns/p", "ns/p", "ns/p", ""]);
}

#[test]
fn without_ipam_events_routes_and_links_show_the_holders() {
    let truth = truth(vec![
        ip("route", "add", "multicast ff00::/8 dev veth1 table local"),
        ip("route", "add", "10.244.1.5 dev veth1 scope host"),
        cri("SANDBOX_READY", 9_999, "a"),
        ip("link", "del", "3: veth2@NONE: <BROADCAST> mtu 1500"),
        ip("link", "del", "4: veth1@NONE: <BROADCAST> mtu 1500"),
    ]);
    assert_eq!(held(&truth, 1..=5), ["", "ns/p", "ns/p", "ns/p", ""]);
}

#[test]
fn a_killed_node_holds_nothing_once_the_link_is_gone() {
    let truth = truth(vec![
        ipam("alloc", "a"),
        cri("SANDBOX_READY", 9_000, "a"),
        ip("route", "add", "10.244.1.5 dev veth1 scope host"),
        ip("link", "del", "4: veth1@if2: <BROADCAST> mtu 1500"),
    ]);
    assert_eq!(held(&truth, 3..=4), ["ns/p", ""]);
}

#[test]
fn two_nodes_may_hold_one_address_and_release_it_apart() {
    let truth = truth(vec![
        ipam("alloc", "a"),
        ipam("alloc", "b"),
        ipam("free", "a"),
        cri("SANDBOX_READY", 9_000, "b"),
        cri("SANDBOX_NOTREADY", 9_000, "a"),
    ]);
    assert_eq!(held(&truth, 1..=3), ["ns/p", "ns/p+ns/p", "ns/p"]);
}

#[test]
fn malformed_lines_are_ignored() {
    let truth = truth(vec![
        json!({}),
        json!({"src": "ipam", "op": "alloc", "ip": "banana"}),
        ip("route", "add", ""),
        ip("link", "del", "veth"),
        json!({"src": "cri", "sandbox": "banana"}),
    ]);
    assert_eq!(held(&truth, 0..=5), ["", "", "", "", "", ""]);
}
