use super::super::super::{
    stream::Kind,
    testing::{Small, X, backend, dead, endpoint, retired, sandbox, slice, stranger},
};
use serde_json::{Value, json};

const DEAD: &str = "dead-backend";
const CANDIDATE: &str = "a pod of the Service may hold the IP unpublished";

fn a() -> Value {
    backend("a", X)
}

#[test]
fn another_pod_that_claims_the_ip_makes_it_reused() {
    let mut world = Small::listing(dead(a()));
    assert_eq!(world.apply(Kind::Pod, stranger("b", X)).verdict(), "reused");
    assert_eq!(world.prove().unwrap().owner.as_deref(), Some("b"));
    let mut world = Small::listing(retired(a()));
    assert_eq!(world.apply(Kind::Pod, stranger("b", X)).verdict(), "reused (openers)");
}

#[test]
fn a_multus_address_is_a_claim() {
    let mut pod = stranger("b", "10.244.1.6");
    let status = json!([{"name": "net1", "ips": [X]}]).to_string();
    pod["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/network-status": status});
    assert_eq!(Small::listing(dead(a())).apply(Kind::Pod, pod).verdict(), "reused");
}

#[test]
fn claims_of_one_list_have_no_order_and_across_lists_only_perhaps() {
    let mut world = Small::listing(a());
    world.reset(Kind::Pod, vec![retired(a()), stranger("b", X)]);
    assert_eq!(world.verdict(), "perhaps reused (openers)");
    let mut world = Small::new();
    world.reset(Kind::Pod, vec![retired(a()), stranger("b", X)]);
    world.apply(Kind::EndpointSlice, slice(&json!([endpoint(X, "a")])));
    assert_eq!(world.verdict(), "which claim of the IP is newer is unknown");
    world.apply(Kind::Pod, dead(a()));
    assert_eq!(world.verdict(), "reused");
}

#[test]
fn an_older_claim_than_a_retired_ones_is_no_reuse() {
    let mut world = Small::new();
    world.apply(Kind::Pod, stranger("b", X)).apply(Kind::Pod, retired(a()));
    world.apply(Kind::EndpointSlice, slice(&json!([endpoint(X, "a")])));
    assert_eq!(world.verdict(), "which claim of the IP is newer is unknown");
}

#[test]
fn a_live_pod_that_the_service_selects_keeps_the_ip() {
    let mut world = Small::listing(dead(a()));
    world.apply(Kind::Pod, backend("b", X));
    assert_eq!(world.verdict(), "a live pod of the Service claims the IP");
}

#[test]
fn two_live_claimants_pass() {
    let mut world = Small::listing(dead(a()));
    world.apply(Kind::Pod, stranger("b", X)).apply(Kind::Pod, stranger("c", X));
    assert_eq!(world.verdict(), "two live pods claim the IP");
}

#[test]
fn a_selected_pod_without_an_ip_may_hold_it_on_any_node() {
    let verdict = |change: fn(&mut Value)| {
        let mut pod = backend("b", "10.244.1.6");
        pod["status"]["podIPs"] = json!([]);
        change(&mut pod);
        Small::listing(dead(a())).apply(Kind::Pod, pod).verdict()
    };
    assert_eq!(verdict(|_| {}), CANDIDATE);
    assert_eq!(verdict(|pod| pod["spec"]["nodeName"] = "node-b".into()), CANDIDATE);
    assert_eq!(verdict(|pod| pod["spec"]["nodeName"] = Value::Null), DEAD);
    assert_eq!(verdict(|pod| pod["spec"]["hostNetwork"] = true.into()), DEAD);
    assert_eq!(verdict(|pod| pod["status"]["phase"] = "Failed".into()), DEAD);
    assert_eq!(verdict(|pod| pod["metadata"]["namespace"] = "other".into()), DEAD);
}

#[test]
fn a_selected_pod_whose_sandbox_restarts_may_hold_it() {
    let verdict = |status: &str, since: &str, start: Option<&str>| {
        let mut pod = backend("b", "10.244.1.6");
        pod["status"]["conditions"] = json!([sandbox(status, since)]);
        pod["status"]["containerStatuses"] = json!([{"state": {"running": {"startedAt": start}}}]);
        Small::listing(dead(a())).apply(Kind::Pod, pod).verdict()
    };
    assert_eq!(verdict("False", "2026-01-01T00:00:00Z", Some("2026-01-01T00:00:01Z")), CANDIDATE);
    assert_eq!(verdict("True", "2026-01-01T00:00:09Z", Some("2026-01-01T00:00:01Z")), CANDIDATE);
    assert_eq!(verdict("True", "2026-01-01T00:00:01Z", Some("2026-01-01T00:00:01Z")), DEAD);
    assert_eq!(verdict("True", "2026-01-01T00:00:01Z", None), format!("perhaps {DEAD}"));
}

#[test]
fn where_the_selector_proves_nothing_pods_of_the_meant_pods_workload_are_the_services_own() {
    let of = |mut pod: Value, kind: &str, name: &str| {
        pod["metadata"]["labels"] = json!({"pod-template-hash": "54cc"});
        pod["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": name, "controller": true}]);
        pod
    };
    let verdict_of = |kind: &str, name: &str, listed: &str, writer: &str| {
        let mut world = Small::listing(dead(of(a(), kind, "pg-54cc")));
        world.apply(Kind::Pod, of(backend("x", "10.244.1.7"), "Job", "other"));
        world.apply(Kind::Pod, backend("y", "10.244.1.8"));
        let slices = json!([endpoint(X, "a"), endpoint("10.244.1.7", listed)]);
        let mut slice = slice(&slices);
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!(writer);
        world.apply(Kind::EndpointSlice, slice);
        world.apply(Kind::Pod, of(backend("b", X), kind, name)).verdict()
    };
    let verdict = |kind, name, listed| verdict_of(kind, name, listed, "endpointslice-controller.k8s.io");
    let own = "a live pod of the Service claims the IP";
    assert_eq!(verdict("ReplicaSet", "pg-54cc", "x"), own);
    assert_eq!(verdict("DaemonSet", "pg-54cc", "x"), own);
    assert_eq!(verdict("DaemonSet", "pg", "x"), "reused");
    assert_eq!(verdict("StatefulSet", "pg-54cc", "x"), "reused");
    assert_eq!(verdict("DaemonSet", "pg-54cc", "y"), "reused");
    assert_eq!(verdict_of("DaemonSet", "pg-54cc", "y", "another"), own);
}
