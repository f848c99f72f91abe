use super::*;
use crate::replay::recording::{ApiEvent, Change};
use serde_json::json;

const X: &str = "10.244.1.5";

/// Node events at 1, 2, 3... ms.
fn truth(lines: Vec<Value>) -> Truth {
    let pod = json!({"metadata": {"namespace": "ns", "name": "p", "uid": "uid-of-p"}});
    let kind = Kind::Pod;
    let change = Change::Applied(RecordedObject::new(pod));
    let mut instants = vec![(Duration::ZERO, What::Api(ApiEvent { kind, change }))];
    let times = (1..).map(Duration::from_millis);
    instants.extend(times.zip(lines.into_iter().map(What::Node)));
    Truth::of(&Recording {
        name: "test".into(),
        instants,
    })
}

fn holders(truth: &Truth, ms: u64) -> Vec<PodIdentity> {
    truth.holders(X.parse().unwrap(), Duration::from_millis(ms))
}

fn ipam(op: &str, node: &str) -> Value {
    json!({"src": "ipam", "op": op, "node": node, "ip": X, "sandbox": format!("sandbox-{node}")})
}

fn ip(src: &str, op: &str, line: &str) -> Value {
    json!({"src": src, "op": op, "node": "a", "line": line})
}

fn cri(is_ready: bool, created_us: u64, node: &str) -> Value {
    let state = if is_ready {
        "SANDBOX_READY"
    } else {
        "SANDBOX_NOTREADY"
    };
    let sandbox = json!({"id": format!("sandbox-{node}"), "ns": "ns", "pod": "p", "uid": "uid-of-p", "ips": [X],
                         "state": state, "created_us": created_us});
    json!({"src": "cri", "kind": "sandbox-poll", "node": node, "wall_us": 10_000, "sandbox": sandbox})
}

#[test]
fn the_nodes_events_show_when_an_address_is_held() {
    let route = || ip("route", "add", "10.244.1.5 dev veth1 scope host");
    // For each millisecond from 0 on, how many pods hold X.
    for (what, lines, expected) in [
        (
            "from allocation to release",
            vec![
                ipam("alloc", "a"),
                cri(true, 9_000, "a"),
                cri(false, 9_000, "a"),
                ipam("free", "a"),
                cri(true, 9_000, "a"),
            ],
            vec![0, 1, 1, 1, 0, 0],
        ),
        (
            "a sandbox older than the recording",
            vec![ipam("free", "b"), cri(true, 0, "a"), cri(false, 0, "a")],
            vec![1, 1, 1, 0],
        ),
        (
            "routes and links, without IPAM events",
            vec![
                ip("route", "add", "multicast ff00::/8 dev veth1 table local"),
                route(),
                cri(true, 9_999, "a"),
                ip("link", "del", "3: veth2@NONE: <BROADCAST> mtu 1500"),
                ip("link", "del", "4: veth1@NONE: <BROADCAST> mtu 1500"),
            ],
            vec![0, 0, 1, 1, 1, 0],
        ),
        (
            "until the link of a killed node is gone",
            vec![
                ipam("alloc", "a"),
                cri(true, 9_000, "a"),
                route(),
                ip("link", "del", "4: veth1@if2: <BROADCAST> mtu 1500"),
            ],
            vec![0, 1, 1, 1, 0],
        ),
        (
            "by two nodes, which release it apart",
            vec![
                ipam("alloc", "a"),
                ipam("alloc", "b"),
                ipam("free", "a"),
                cri(true, 9_000, "b"),
                cri(false, 9_000, "a"),
            ],
            vec![0, 1, 2, 1, 1, 1],
        ),
        (
            "malformed lines",
            vec![
                json!({}),
                json!({"src": "ipam", "op": "alloc", "ip": "banana"}),
                ip("route", "add", ""),
                ip("link", "del", "veth"),
                json!({"src": "cri", "sandbox": "banana"}),
            ],
            vec![0; 6],
        ),
    ] {
        let truth = truth(lines);
        let held: Vec<_> = (0..)
            .take(expected.len())
            .map(|ms| holders(&truth, ms))
            .collect();
        assert_eq!(
            held.iter().map(Vec::len).collect::<Vec<_>>(),
            expected,
            "{what}"
        );
        assert!(
            held.iter()
                .flatten()
                .all(|pod| pod.name == "ns/p" && pod.uids.contains("uid-of-p")),
            "{what}: {held:?}"
        );
    }
}
