//! The objects of the API.

use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// Whose container runs, or has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Ended,
}

/// A pod of `node-a`, as a kubelet of Kubernetes 1.36 reports it.
pub(crate) fn pod(name: &str, ip: Ipv4Addr, state: State) -> Value {
    let (phase, is_up, container, time) = match state {
        State::Running => ("Running", "True", json!({"running": {}}), "2026-01-01T00:00:00Z"),
        State::Ended => (
            "Failed",
            "False",
            json!({"terminated": {"exitCode": 1}}),
            "2026-01-01T00:00:01Z",
        ),
    };
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": name}, "managedFields": [
            {"manager": "kubelet", "operation": "Update", "subresource": "status", "apiVersion": "v1",
             "time": time, "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:phase": {}}}}]},
        "spec": {"nodeName": "node-a", "containers": [{"name": "c"}]},
        "status": {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": is_up}, {"type": "PodReadyToStartContainers", "status": is_up}],
            "containerStatuses": [{"name": "c", "ready": state == State::Running, "state": container}]},
    })
}

/// A pod of another node, which changes all the time.
pub(crate) fn other(number: u32, change: u32) -> Value {
    let [_, _, high, low] = number.to_be_bytes();
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": format!("other-{number}"), "namespace": "other",
            "annotations": {"change": change.to_string()}},
        "spec": {"nodeName": "node-b", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": Ipv4Addr::new(10, 247, high, low)}]},
    })
}

/// A Service of one pod.
pub(crate) fn service(name: &str, vip: Ipv4Addr) -> Value {
    json!({
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIP": vip, "clusterIPs": [vip], "selector": {"app": name},
            "ports": [{"name": "p", "protocol": "UDP", "port": 80, "targetPort": 8080}]},
    })
}

/// Its slice.
pub(crate) fn slice(name: &str, ip: Ipv4Addr, uid: &Value) -> Value {
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
        "metadata": {"name": format!("{name}-1"), "namespace": "shop", "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "node-a", "targetRef": {"kind": "Pod", "namespace": "shop", "name": name, "uid": uid}}],
        "ports": [{"name": "p", "protocol": "UDP", "port": 8080}],
    })
}

/// A node with its range of pod IPs.
pub(crate) fn node(name: &str, range: &str) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": {},
        "spec": {"podCIDR": range, "podCIDRs": [range]},
    })
}
