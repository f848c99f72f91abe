//! Service `shop/web`, which lists a dead pod, and the facts that end that denial and prove it
//! anew.

use super::{RealLoop, read};
use epguard_common::{Addr, Vip};
use epguard_core::facts::{Change, Fact};
use serde_json::{Value, json};

/// The Service's only VIP.
pub fn vip() -> Vip {
    Vip {
        addr: Addr::v4([10, 96, 0, 1]),
        port: 80,
        protocol: 6,
        ..Vip::default()
    }
}

/// What makes the denial.
pub fn facts() -> Vec<Fact> {
    let service = json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": uid(0)},
        "spec": {"clusterIP": "10.96.0.1", "selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    let target = json!({"kind": "Pod", "namespace": "shop", "name": "web-1", "uid": uid(1)});
    let slice = json!({
        "metadata": {"namespace": "shop", "name": "web-1", "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }},
        "addressType": "IPv4", "ports": [{"port": 8080}],
        "endpoints": [{"addresses": ["10.244.2.10"], "targetRef": target}],
    });
    let node = json!({"metadata": {"name": "node-b", "uid": uid(2)}});
    vec![
        Fact::Node(Change::Applied(read(&node))),
        Fact::Service(Change::Applied(read(&service))),
        Fact::Pod(Change::Applied(read(&pod(1, true)))),
        Fact::Slice(Change::Applied(read(&slice))),
        Fact::Pod(Change::Applied(read(&pod(1, false)))),
    ]
}

/// A pod of the Service shows the dead pod's IP: the denial ends.
pub fn lift(number: usize) -> Fact {
    Fact::Pod(Change::Applied(read(&pod(number, true))))
}

/// That pod has ended, and its object is gone: the denial is proven anew.
pub fn deny_again(number: usize) -> [Fact; 2] {
    let mut ended = pod(number, false);
    ended["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    [
        Fact::Pod(Change::Applied(read(&ended))),
        Fact::Pod(Change::Deleted(read(&ended))),
    ]
}

/// A pod of the Service that runs with the IP, or has ended.
fn pod(number: usize, runs: bool) -> Value {
    let (phase, ready, state) = if runs {
        ("Running", "True", "running")
    } else {
        ("Failed", "False", "terminated")
    };
    json!({
        "metadata": {
            "namespace": "shop", "name": format!("web-{number}"), "uid": uid(number), "labels": {"app": "web"},
            "managedFields": [{
                "manager": "kubelet", "operation": "Update", "subresource": "status",
                "fieldsV1": {"f:status": {
                    "f:phase": {}, "f:podIP": {}, "f:conditions": {"k:{\"type\":\"PodReadyToStartContainers\"}": {}},
                }},
            }],
        },
        "spec": {"nodeName": "node-b"},
        "status": {
            "phase": phase, "podIPs": [{"ip": "10.244.2.10"}],
            "conditions": [{"type": "PodReadyToStartContainers", "status": ready}],
            "containerStatuses": [{"name": "c", "state": {state: {}}}],
        },
    })
}

fn uid(number: usize) -> String {
    format!("11111111-1111-4111-8111-{number:012x}")
}

/// Has the denial carried out.
pub async fn deny(real_loop: &mut RealLoop) {
    for fact in facts() {
        real_loop.send(fact);
        real_loop.settle().await;
    }
    assert!(real_loop.judges(&vip()));
}
