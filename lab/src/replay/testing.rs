//! Small sets of objects for tests: a Service `ns/s` (selector `app: s`, target port 8080) and two nodes.

use super::{
    oracle::{self, Proof},
    stream::{ApiEvent, Change, Kind, Object},
    world::{Key, World},
};
use crate::proxy::Protocol;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// The address of the tests.
pub(super) const X: &str = "10.244.1.5";

/// What the watches have shown.
pub(super) struct Small(World);

impl Small {
    /// All watches have shown everything; there are no pods and no slices yet.
    pub(super) fn new() -> Self {
        let mut small = Self(World::default());
        small.reset(Kind::Node, vec![node("a", 1), node("b", 2)]);
        small.reset(Kind::Service, vec![service()]);
        small.reset(Kind::Pod, vec![]);
        small.reset(Kind::EndpointSlice, vec![]);
        small
    }

    /// `a` is listed at X.
    pub(super) fn listing(pod: Value) -> Self {
        let mut small = Self::new();
        let uid = pod["metadata"]["uid"].as_str().expect("a UID").to_owned();
        small.apply(Kind::Pod, pod);
        small.apply(Kind::EndpointSlice, slice(&json!([endpoint(X, &uid)])));
        small
    }

    pub(super) fn apply(&mut self, kind: Kind, object: Value) -> &mut Self {
        self.event(kind, Change::Applied(Object::new(object)))
    }

    pub(super) fn delete(&mut self, kind: Kind, object: Value) -> &mut Self {
        self.event(kind, Change::Deleted(Object::new(object)))
    }

    pub(super) fn reset(&mut self, kind: Kind, list: Vec<Value>) -> &mut Self {
        self.event(kind, Change::Reset(list.into_iter().map(Object::new).collect()))
    }

    pub(super) fn event(&mut self, kind: Kind, change: Change) -> &mut Self {
        self.0.apply(Duration::ZERO, &ApiEvent { kind, change });
        self
    }

    /// The provable denial of `ns/s` at X:8080.
    pub(super) fn prove(&self) -> Result<Proof, &'static str> {
        self.prove_at(Duration::ZERO, Protocol::Tcp)
    }

    pub(super) fn prove_at(&self, now: Duration, protocol: Protocol) -> Result<Proof, &'static str> {
        let key = Key { service: "ns/s".into(), ip: X.parse().expect("an IP"), port: 8080, protocol };
        oracle::prove(&self.0, &key, now)
    }

    /// The verdict as text; `perhaps` where a denial is allowed but not required.
    pub(super) fn verdict(&self) -> String {
        match self.prove() {
            Ok(proof) if proof.required => proof.shapes[0].to_string(),
            Ok(proof) => format!("perhaps {}", proof.shapes[0]),
            Err(why) => why.into(),
        }
    }
}

fn node(name: &str, number: u8) -> Value {
    json!({
        "metadata": {"name": format!("node-{name}"), "uid": name},
        "status": {"addresses": [{"type": "InternalIP", "address": format!("10.250.0.{number}")}]},
    })
}

pub(super) fn service() -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": "s", "uid": "service"},
        "spec": {"clusterIP": "10.96.0.1", "selector": {"app": "s"}},
    })
}

pub(super) fn endpoint(ip: &str, uid: &str) -> Value {
    json!({"addresses": [ip], "targetRef": {"kind": "Pod", "uid": uid}})
}

/// The one slice of `ns/s`, listing TCP and UDP 8080.
pub(super) fn slice(endpoints: &Value) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": "s-1", "labels": {
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
        "metadata": {
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
    let mut pod = backend(uid, ip);
    pod["metadata"]["namespace"] = "other".into();
    pod
}

/// Finished, with the kubelet's report after it removed the sandbox.
pub(super) fn dead(mut pod: Value) -> Value {
    pod["status"]["phase"] = "Failed".into();
    pod["status"]["conditions"] = json!([sandbox("False", "2026-01-01T00:01:00Z")]);
    let terminated = json!({"startedAt": "2026-01-01T00:00:01Z", "exitCode": 1});
    pod["status"]["containerStatuses"] = json!([{"state": {"terminated": terminated}}]);
    pod
}

/// Finished, by the report of a writer other than the kubelet.
pub(super) fn retired(pod: Value) -> Value {
    let mut pod = dead(pod);
    pod["metadata"]["managedFields"][0]["manager"] = "kube-controller-manager".into();
    pod
}

/// With a deletionTimestamp.
pub(super) fn deleting(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:02:00Z".into();
    pod
}

pub(super) fn sandbox(status: &str, since: &str) -> Value {
    json!({"type": "PodReadyToStartContainers", "status": status, "lastTransitionTime": since})
}

/// A folder under the system's temporary one, gone when dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn with(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("epguard-replay-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(path.join(name), text).expect("a file in it");
        }
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}
