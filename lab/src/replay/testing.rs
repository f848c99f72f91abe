//! Small sets of objects for tests: a Service `ns/s` (selector `app: s`, target port 8080) and two nodes.

use super::{
    oracle::{self, Proof},
    recording::{ApiEvent, Change, Kind, Object},
    world::{Key, World},
};
use crate::proxy::Protocol;
use serde_json::{Value, json};
use std::time::Duration;

/// The address of the tests.
pub(super) const X: &str = "10.244.1.5";

/// What the watches have shown.
pub(super) struct Small(World);

impl Small {
    /// All watches have shown everything; there are no pods and no slices yet.
    pub(super) fn new() -> Self {
        let node = |name: &str, ip: &str| {
            let addresses = json!([{"type": "InternalIP", "address": ip}]);
            json!({"metadata": {"name": name, "uid": name}, "status": {"addresses": addresses}})
        };
        let nodes = vec![node("node-a", "10.250.0.1"), node("node-b", "10.250.0.2")];
        Self(World::default()).after([
            lists(Kind::Node, nodes),
            lists(Kind::Service, vec![service()]),
            lists(Kind::Pod, vec![]),
            lists(Kind::EndpointSlice, vec![]),
        ])
    }

    /// The pod is listed at X.
    pub(super) fn listing(pod: Value) -> Self {
        let listed = slice(&[endpoint(X, pod["metadata"]["uid"].as_str().expect("a UID"))]);
        Self::new().after([shows(pod), shows(listed)])
    }

    pub(super) fn after(mut self, events: impl IntoIterator<Item = ApiEvent>) -> Self {
        events.into_iter().for_each(|event| self.0.apply(Duration::ZERO, &event));
        self
    }

    /// The provable denial of `ns/s` at X:8080.
    pub(super) fn prove(&self, now: Duration, protocol: Protocol) -> Result<Proof, &'static str> {
        let key = Key { service: "ns/s".into(), ip: X.parse().expect("an IP"), port: 8080, protocol };
        oracle::prove(&self.0, &key, now)
    }

    /// The verdict as text; `perhaps` where a denial is allowed but not required.
    pub(super) fn verdict(&self) -> String {
        match self.prove(Duration::ZERO, Protocol::Tcp) {
            Ok(proof) if proof.required => proof.shapes[0].to_string(),
            Ok(proof) => format!("perhaps {}", proof.shapes[0]),
            Err(why) => why.into(),
        }
    }
}

/// ADDED or MODIFIED.
pub(super) fn shows(object: Value) -> ApiEvent {
    ApiEvent { kind: kind(&object), change: Change::Applied(Object::new(object)) }
}

/// DELETED.
pub(super) fn deletes(object: Value) -> ApiEvent {
    ApiEvent { kind: kind(&object), change: Change::Deleted(Object::new(object)) }
}

/// The whole collection.
pub(super) fn lists(kind: Kind, objects: Vec<Value>) -> ApiEvent {
    ApiEvent { kind, change: Change::Reset(objects.into_iter().map(Object::new).collect()) }
}

fn kind(object: &Value) -> Kind {
    object["kind"].as_str().expect("a kind").parse().expect("a known kind")
}

/// The object with a JSON merge patch.
pub(super) fn but(mut object: Value, patch: &Value) -> Value {
    json_patch::merge(&mut object, patch);
    object
}

pub(super) fn service() -> Value {
    json!({
        "kind": "Service", "metadata": {"namespace": "ns", "name": "s", "uid": "service"},
        "spec": {"clusterIP": "10.96.0.1", "selector": {"app": "s"}},
    })
}

pub(super) fn endpoint(ip: &str, uid: &str) -> Value {
    json!({"addresses": [ip], "targetRef": {"kind": "Pod", "uid": uid}})
}

/// The one slice of `ns/s`, listing TCP and UDP 8080.
pub(super) fn slice(endpoints: &[Value]) -> Value {
    json!({
        "kind": "EndpointSlice", "metadata": {"namespace": "ns", "name": "s-1", "labels": {
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
        "addressType": "IPv4",
        "ports": [{"port": 8080, "protocol": "TCP"}, {"port": 8080, "protocol": "UDP"}],
        "endpoints": endpoints,
    })
}

/// Running on node-a, with the label that `ns/s` selects.
pub(super) fn backend(uid: &str, ip: &str) -> Value {
    json!({
        "kind": "Pod", "metadata": {
            "namespace": "ns", "name": uid, "uid": uid, "labels": {"app": "s"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}],
        },
        "spec": {"nodeName": "node-a", "containers": [{"name": "c"}]},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": ip}],
            "conditions": [sandbox("True", "2026-01-01T00:00:00Z")],
            "containerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}}],
        },
    })
}

/// Running in another namespace, on node-a.
pub(super) fn stranger(uid: &str, ip: &str) -> Value {
    but(backend(uid, ip), &json!({"metadata": {"namespace": "other"}}))
}

/// Finished, with the kubelet's report after it removed the sandbox.
pub(super) fn dead(pod: Value) -> Value {
    let terminated = json!({"startedAt": "2026-01-01T00:00:01Z", "exitCode": 1});
    but(
        pod,
        &json!({"status": {
            "phase": "Failed", "conditions": [sandbox("False", "2026-01-01T00:01:00Z")],
            "containerStatuses": [{"state": {"terminated": terminated}}],
        }}),
    )
}

/// Finished, by the report of a writer other than the kubelet.
pub(super) fn retired(pod: Value) -> Value {
    let mut pod = dead(pod);
    pod["metadata"]["managedFields"][0]["manager"] = "kube-controller-manager".into();
    pod
}

/// With a deletionTimestamp.
pub(super) fn deleting(pod: Value) -> Value {
    but(pod, &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:02:00Z"}}))
}

pub(super) fn sandbox(status: &str, since: &str) -> Value {
    json!({"type": "PodReadyToStartContainers", "status": status, "lastTransitionTime": since})
}
