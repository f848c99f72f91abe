use super::super::{
    stream::{Change, Kind},
    testing::{Small, X, backend, dead, deleting, endpoint, retired, service, slice, stranger},
};
use crate::proxy::Protocol;
use serde_json::{Value, json};
use std::time::Duration;

const DEAD: &str = "dead-backend";
const RETIRED: &str = "retired-backend (openers)";

fn a() -> Value {
    backend("a", X)
}

fn listed(change: impl FnOnce(&mut Value)) -> String {
    let mut pod = dead(a());
    change(&mut pod);
    Small::listing(pod).verdict()
}

#[test]
fn a_finished_backend_that_the_kubelet_tore_down_is_dead() {
    assert_eq!(listed(|_| {}), DEAD);
}

#[test]
fn a_running_or_terminating_backend_passes() {
    assert_eq!(Small::listing(a()).verdict(), "a pod listed there lives");
    assert_eq!(Small::listing(deleting(a())).verdict(), "a pod listed there lives");
}

#[test]
fn a_terminal_phase_proves_death_only_with_all_of_its_conditions() {
    let other_owner = json!({"manager": "kubectl", "fieldsV1": {"f:status": {"f:phase": {}}}});
    let running = json!({"state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}});
    let restarting = json!({"state": {"waiting": {}}, "lastState": {"terminated": {}}});
    let never_started = json!({"state": {"waiting": {}}});
    let push = |pod: &mut Value, list: &str, value: Value| {
        pod["status"][list] = json!([pod["status"][list][0], value]);
    };
    assert_eq!(Small::listing(retired(a())).verdict(), RETIRED);
    assert_eq!(listed(|pod| pod["metadata"]["managedFields"] = json!([])), RETIRED);
    assert_eq!(
        listed(|pod| pod["metadata"]["managedFields"] =
            json!([pod["metadata"]["managedFields"][0], other_owner])),
        RETIRED
    );
    assert_eq!(listed(|pod| pod["status"]["conditions"] = json!([])), RETIRED);
    assert_eq!(listed(|pod| pod["status"]["conditions"][0]["status"] = "True".into()), RETIRED);
    assert_eq!(listed(|pod| pod["status"]["containerStatuses"] = json!([])), RETIRED);
    assert_eq!(listed(|pod| pod["status"]["containerStatuses"] = json!([never_started])), RETIRED);
    assert_eq!(listed(|pod| pod["status"]["initContainerStatuses"] = json!([running])), RETIRED);
    assert_eq!(listed(|pod| pod["status"]["ephemeralContainerStatuses"] = json!([restarting])), RETIRED);
    assert_eq!(listed(|pod| push(pod, "containerStatuses", never_started)), DEAD);
}

#[test]
fn a_mirror_pod_is_never_dead_nor_retired() {
    let mirror =
        |pod: &mut Value| pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "h"});
    assert_eq!(listed(mirror), "a pod listed there lives");
    let mut pod = dead(deleting(a()));
    mirror(&mut pod);
    let mut world = Small::listing(pod.clone());
    world.delete(Kind::Pod, pod);
    assert_eq!(world.verdict(), "a UID listed there is neither Retired nor Dead");
}

#[test]
fn host_network_and_node_addresses_are_never_judged() {
    assert_eq!(listed(|pod| pod["spec"]["hostNetwork"] = true.into()), "the IP is a node's");
    let mut world = Small::listing(dead(a()));
    let node = json!({"metadata": {"name": "node-c"}, "status": {"addresses": [{"address": X}]}});
    assert_eq!(world.apply(Kind::Node, node).verdict(), "the IP is a node's");
}

#[test]
fn a_deletion_retires_and_proves_death_only_with_its_last_state() {
    let mut world = Small::listing(a());
    assert_eq!(world.delete(Kind::Pod, deleting(a())).verdict(), RETIRED);
    let mut world = Small::listing(a());
    assert_eq!(world.delete(Kind::Pod, deleting(dead(a()))).verdict(), DEAD);
    let mut world = Small::listing(a());
    assert_eq!(world.delete(Kind::Pod, a()).verdict(), "a UID listed there is neither Retired nor Dead");
}

#[test]
fn a_pod_that_vanished_in_a_gap_is_not_dead_but_a_proven_death_stays() {
    let mut world = Small::listing(a());
    world.reset(Kind::Pod, vec![]);
    assert_eq!(world.verdict(), "a UID listed there is neither Retired nor Dead");
    let mut world = Small::listing(deleting(a()));
    world.reset(Kind::Pod, vec![]);
    assert_eq!(world.verdict(), "a UID listed there is neither Retired nor Dead");
    let mut world = Small::listing(dead(a()));
    assert_eq!(world.reset(Kind::Pod, vec![]).verdict(), DEAD);
}

#[test]
fn a_retired_pod_seen_alive_again_is_alive_and_a_dead_one_is_not() {
    let mut world = Small::listing(retired(a()));
    assert_eq!(world.apply(Kind::Pod, a()).verdict(), "a pod listed there lives");
    let mut world = Small::listing(dead(a()));
    assert_eq!(world.apply(Kind::Pod, a()).verdict(), DEAD);
}

#[test]
fn a_slice_that_lists_the_ip_for_another_pod_forbids_a_denial() {
    let verdict = |other: Value| {
        let mut world = Small::listing(dead(a()));
        world.apply(Kind::Pod, stranger("live", "10.244.1.6"));
        let mut second = slice(&json!([other]));
        second["metadata"]["name"] = "s-2".into();
        second["ports"] = json!([{"port": 9090}]);
        world.apply(Kind::EndpointSlice, second).verdict()
    };
    assert_eq!(verdict(endpoint(X, "live")), "the Service lists the IP with a live UID");
    assert_eq!(verdict(endpoint(X, "nobody")), "the Service lists the IP with an unknown UID");
    assert_eq!(verdict(json!({"addresses": [X]})), "the Service lists the IP without a UID");
    assert_eq!(verdict(endpoint("10.244.1.6", "live")), DEAD);
}

#[test]
fn a_proof_stays_for_ten_minutes_after_the_slice_drops_the_pod() {
    let mut world = Small::listing(dead(a()));
    world.apply(Kind::EndpointSlice, slice(&json!([])));
    assert_eq!(world.verdict(), DEAD);
    let later = |minutes| world.prove_at(Duration::from_mins(minutes), Protocol::Tcp).unwrap();
    assert!(later(9).required);
    assert!(!later(11).required);
}

#[test]
fn an_earlier_slice_with_a_live_uid_forbids_a_denial() {
    let mut world = Small::listing(backend("old", "10.244.1.6"));
    world.apply(Kind::Pod, dead(a()));
    world.apply(Kind::EndpointSlice, slice(&json!([endpoint(X, "a")])));
    assert_eq!(world.verdict(), "a pod listed there lives");
}

#[test]
fn a_service_without_a_selector_may_mean_the_successor_of_the_pod_that_it_lists() {
    let mut without_selector = service();
    without_selector["spec"]["selector"] = Value::Null;
    let mut listed = endpoint(X, "a");
    listed["targetRef"]["name"] = "a".into();
    let mut small = Small::listing(dead(a()));
    small.apply(Kind::Service, without_selector);
    small.apply(Kind::EndpointSlice, slice(&json!([listed])));
    assert_eq!(small.verdict(), DEAD);
    small.delete(Kind::Pod, deleting(dead(a())));
    let mut successor = backend("b", X);
    successor["metadata"]["name"] = "a".into();
    let mut pending = successor.clone();
    pending["status"] = json!({"phase": "Pending"});
    small.apply(Kind::Pod, pending);
    assert_eq!(small.verdict(), "a pod of the Service may hold the IP unpublished");
    small.apply(Kind::Pod, successor);
    assert_eq!(small.verdict(), "a live pod of the Service claims the IP");
}

#[test]
fn a_service_without_a_selector_denies_only_while_it_lists_the_dead_pod() {
    let mut headless = service();
    headless["spec"]["selector"] = Value::Null;
    let mut world = Small::listing(dead(a()));
    world.apply(Kind::Service, headless);
    assert_eq!(world.verdict(), DEAD);
    assert_eq!(world.apply(Kind::Pod, stranger("b", X)).verdict(), "reused");
    world.apply(Kind::EndpointSlice, slice(&json!([])));
    assert_eq!(world.verdict(), "the Service, without a selector, no longer lists it");
}

#[test]
fn without_a_vip_no_denial_is_required() {
    let mut headless = service();
    headless["spec"]["clusterIP"] = "None".into();
    let mut world = Small::listing(dead(a()));
    assert_eq!(world.apply(Kind::Service, headless).verdict(), "the Service has no VIP");
    assert_eq!(world.delete(Kind::Service, service()).verdict(), "the Service does not exist");
}

#[test]
fn without_a_vip_of_the_ips_family_nothing_is_required() {
    let mut six = service();
    six["spec"]["clusterIP"] = "fd00::1".into();
    let mut world = Small::listing(dead(a()));
    assert_eq!(world.apply(Kind::Service, six.clone()).verdict(), format!("perhaps {DEAD}"));
    six["spec"]["clusterIPs"] = json!(["fd00::1", "10.96.0.1"]);
    assert_eq!(world.apply(Kind::Service, six).verdict(), DEAD);
}

#[test]
fn udp_to_a_retired_backend_is_never_denied() {
    let required = |world: &Small| world.prove_at(Duration::ZERO, Protocol::Udp).unwrap().required;
    assert!(required(&Small::listing(dead(a()))));
    assert!(!required(&Small::listing(retired(a()))));
}

#[test]
fn while_a_watch_is_closed_nothing_is_required() {
    let mut world = Small::listing(dead(a()));
    world.event(Kind::EndpointSlice, Change::Closed);
    assert_eq!(world.verdict(), format!("perhaps {DEAD}"));
    world.event(Kind::EndpointSlice, Change::Resumed);
    assert_eq!(world.verdict(), DEAD);
}

#[test]
fn pods_and_services_that_opted_out_are_never_denied() {
    let opt_out = |object: &mut Value| object["metadata"]["annotations"] = json!({"epguard.io/mode": "off"});
    assert_eq!(listed(opt_out), "the pod opted out");
    let mut service = service();
    opt_out(&mut service);
    let mut world = Small::listing(dead(a()));
    assert_eq!(world.apply(Kind::Service, service).verdict(), "the Service opted out");
    let mut world = Small::listing(dead(a()));
    let mut owner = stranger("b", X);
    opt_out(&mut owner);
    assert_eq!(world.apply(Kind::Pod, owner).verdict(), "the pod that claims the IP opted out");
}

#[test]
fn a_virtual_kubelets_statuses_prove_nothing() {
    let node =
        |extra: Value| json!({"metadata": {"name": "node-a", "labels": extra["labels"]}, "spec": extra});
    let verdict = |extra: Value| Small::listing(dead(a())).apply(Kind::Node, node(extra)).verdict();
    let forbidden = "a virtual kubelet's status proves nothing";
    assert_eq!(verdict(json!({"labels": {"type": "virtual-kubelet"}})), forbidden);
    assert_eq!(verdict(json!({"taints": [{"key": "virtual-kubelet.io/provider"}]})), forbidden);
    assert_eq!(verdict(json!({})), DEAD);
}
