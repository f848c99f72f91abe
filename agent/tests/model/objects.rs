//! The objects that the API stores, and how they look as JSON.

use crate::cluster::{Cluster, Ip, Ipam};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where kinds lie in tables.
pub const PODS: usize = 0;
pub const SLICES: usize = 1;
pub const SERVICES: usize = 2;
pub const NODES: usize = 3;
pub const NAMESPACES: usize = 4;
pub const PATHS: [&str; 5] = [
    "/api/v1/pods",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/api/v1/services",
    "/api/v1/nodes",
    "/api/v1/namespaces",
];
pub const NODE_NAMES: [&str; 2] = ["node-a", "node-b"];
pub const PORT: u16 = 8080;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    Waiting,
    /// Second of its start.
    Running(u64),
    /// Seconds of its start and end.
    Ended(u64, u64),
}

/// A pod object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodObject {
    pub uid: String,
    pub app: &'static str,
    pub node: usize,
    pub phase: &'static str,
    /// The field manager that wrote the phase.
    pub phase_by: &'static str,
    /// The field manager of the rest of the status.
    pub kubelet: &'static str,
    pub ip: Option<Ip>,
    pub ready: bool,
    /// `PodReadyToStartContainers` and the second of its last change.
    pub sandbox: Option<(bool, u64)>,
    pub container: Container,
    pub deleting: bool,
    /// One of a Deployment's.
    pub replica: bool,
}

impl PodObject {
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, "Succeeded" | "Failed")
    }

    pub fn json(&self, (namespace, name): (&str, &str)) -> Value {
        let condition = |kind: &str, status: bool, at: u64| json!({"type": kind, "status": if status { "True" } else { "False" }, "lastTransitionTime": time(at)});
        let mut conditions = vec![condition("Ready", self.ready, 0)];
        conditions.extend(
            self.sandbox
                .map(|(up, at)| condition("PodReadyToStartContainers", up, at)),
        );
        let state = match self.container {
            Container::Waiting => json!({"waiting": {"reason": "ContainerCreating"}}),
            Container::Running(start) => json!({"running": {"startedAt": time(start)}}),
            Container::Ended(start, end) => {
                json!({"terminated": {"exitCode": 0, "startedAt": time(start), "finishedAt": time(end)}})
            }
        };
        let ips: Vec<Value> = self.ip.iter().map(|ip| json!({"ip": ip.to_string()})).collect();
        let owned = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": fields}});
        let mut pod = json!({
            "metadata": {
                "namespace": namespace, "name": name, "uid": self.uid, "labels": {"app": self.app},
                "managedFields": [
                    owned(self.kubelet, json!({"f:podIP": {}})),
                    owned(self.phase_by, json!({"f:phase": {}})),
                ],
            },
            "spec": {"nodeName": NODE_NAMES[self.node], "containers": [{"name": "c"}]},
            "status": {
                "phase": self.phase, "conditions": conditions, "podIPs": ips, "podIP": self.ip.map(|ip| ip.to_string()).unwrap_or_default(),
                "hostIP": format!("192.168.250.{}", 11 + self.node),
                "containerStatuses": [{"name": "c", "state": state, "lastState": {}}],
            },
        });
        if self.replica {
            pod["metadata"]["ownerReferences"] =
                json!([{"kind": "ReplicaSet", "name": "pg-5c", "controller": true}]);
        }
        if self.deleting {
            pod["metadata"]["deletionTimestamp"] = time(0).into();
        }
        pod
    }
}

/// An endpoint of a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub ip: Ip,
    /// Name and UID of the targetRef.
    pub target: Option<(String, String)>,
    pub ready: bool,
    pub terminating: bool,
}

/// A slice; its Service's name is a label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    pub service: &'static str,
    pub endpoints: Vec<Endpoint>,
}

impl Slice {
    pub fn json(&self, (namespace, name): (&str, &str)) -> Value {
        let endpoints: Vec<Value> = self
            .endpoints
            .iter()
            .map(|endpoint| {
                let mut shown = json!({
                    "addresses": [endpoint.ip.to_string()],
                    "conditions": {"ready": endpoint.ready, "serving": endpoint.ready, "terminating": endpoint.terminating},
                });
                if let Some((name, uid)) = &endpoint.target {
                    shown["targetRef"] = json!({"kind": "Pod", "namespace": namespace, "name": name, "uid": uid});
                }
                shown
            })
            .collect();
        json!({
            "metadata": {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": self.service}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "protocol": "TCP", "port": PORT}],
        })
    }
}

/// A Service; the same for all time, but for its namespace's annotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    pub namespace: &'static str,
    pub name: &'static str,
    /// Value of the label `app`; none: no selector.
    pub selects: Option<&'static str>,
    pub vip: Ip,
    pub publishes_unready: bool,
}

impl Service {
    pub fn json(&self) -> Value {
        let mut service = json!({
            "metadata": {"namespace": self.namespace, "name": self.name, "uid": format!("service-{}", self.name)},
            "spec": {
                "clusterIP": self.vip.to_string(), "clusterIPs": [self.vip.to_string()],
                "ports": [{"name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP"}],
            },
        });
        if let Some(app) = self.selects {
            service["spec"]["selector"] = json!({"app": app});
        }
        service
    }
}

/// All Services of the model.
pub const ALL_SERVICES: [Service; 4] = [
    service("shop", "web", Some("web"), 1, false),
    service("shop", "front", Some("web"), 2, false),
    service("other", "api", Some("api"), 3, true),
    service("shop", "pg", None, 4, false),
];

const fn service(
    namespace: &'static str,
    name: &'static str,
    selects: Option<&'static str>,
    vip: u8,
    publishes_unready: bool,
) -> Service {
    Service {
        namespace,
        name,
        selects,
        vip: Ip([10, 96, 0, vip]),
        publishes_unready,
    }
}

/// Everything that the API stores and that changes, typed.
#[derive(Clone, Default, Debug)]
pub struct Objects {
    /// By namespace and name.
    pub pods: BTreeMap<(&'static str, String), PodObject>,
    pub slices: BTreeMap<(&'static str, String), Slice>,
    /// `epguard.io/mode` by namespace.
    pub modes: BTreeMap<&'static str, &'static str>,
}

impl Objects {
    pub fn pod_of(&self, uid: &str) -> Option<(&(&'static str, String), &PodObject)> {
        self.pods.iter().find(|(_, pod)| pod.uid == uid)
    }

    /// The endpoints that the slices of a Service list at an IP.
    pub fn listed<'a>(&'a self, service: &'a Service, ip: Ip) -> impl Iterator<Item = &'a Endpoint> {
        let slices = self.slices.iter().filter(|((namespace, _), slice)| {
            *namespace == service.namespace && slice.service == service.name
        });
        slices
            .flat_map(|(_, slice)| &slice.endpoints)
            .filter(move |endpoint| endpoint.ip == ip)
    }
}

pub fn namespace(name: &str, mode: Option<&str>) -> Value {
    let mut namespace = json!({"metadata": {"name": name, "uid": format!("namespace-{name}")}});
    if let Some(mode) = mode {
        namespace["metadata"]["annotations"] = json!({"epguard.io/mode": mode});
    }
    namespace
}

pub fn node(cluster: &Cluster, number: usize) -> Value {
    let [first, _] = Cluster::range(number);
    let [a, b, c, _] = first.0;
    let cidrs = match cluster.ipam {
        Ipam::Node | Ipam::ClusterDespiteRanges => vec![format!("{a}.{b}.{c}.0/24")],
        Ipam::Cluster => vec![],
    };
    json!({
        "metadata": {"name": NODE_NAMES[number], "uid": format!("node-{number}")},
        "spec": {"podCIDRs": cidrs},
        "status": {
            "addresses": [{"type": "InternalIP", "address": format!("192.168.250.{}", 11 + number)}],
            "nodeInfo": {"bootID": format!("boot-{number}")},
        },
    })
}

/// A second of the model as the API writes it.
fn time(second: u64) -> String {
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    format!("2026-01-01T{hours:02}:{minutes:02}:{seconds:02}Z")
}
