//! The objects that the API stores, and how they look as JSON.

use super::*;
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
pub const NODE_NAMES: [&str; 3] = ["node-a", "node-b", "node-c"];
pub const PORT: u16 = 8080;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    /// Which of the reasons it waits for.
    Waiting(usize),
    /// Second of its start.
    Running(u64),
    /// Seconds of its start and end.
    Ended(u64, u64),
}

/// Why a container waits: its sandbox is made, or its image is pulled.
pub const WAITING: [&str; 3] = ["ContainerCreating", "ErrImagePull", "ImagePullBackOff"];

#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, not a state machine"
)]
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
    pub families: &'static [bool],
    /// What its annotation shows of a second network.
    pub attached: Vec<Ip>,
    pub owner: Option<Owner>,
    /// It has the host port 80 on all addresses of its node.
    pub host_port: bool,
    /// The kubelet has gone over it again, with the same sandbox, since the status shows its IP.
    pub has_been_pulled: bool,
}

/// Kind and name of the controlling owner.
pub type Owner = (&'static str, &'static str);

/// Kinds of owners, of resources that are Kubernetes' own and others.
pub const OWNERS: [Option<&str>; 6] = [
    None,
    Some("ReplicaSet"),
    Some("StatefulSet"),
    Some("Job"),
    Some("CloneSet"),
    Some("PostgresCluster"),
];

impl PodObject {
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, "Succeeded" | "Failed")
    }

    pub fn shows(&self, ip: Ip) -> bool {
        self.ip == Some(ip.of(false)) && self.families.contains(&ip.six)
    }

    pub fn json(&self, namespace: &str, name: &str) -> Value {
        let condition = |kind: &str, status: bool, at: u64| json!({"type": kind, "status": if status { "True" } else { "False" }, "lastTransitionTime": time(at)});
        let mut conditions = vec![condition("Ready", self.ready, 0)];
        conditions.extend(
            self.sandbox
                .map(|(up, at)| condition("PodReadyToStartContainers", up, at)),
        );
        let state = match self.container {
            Container::Waiting(why) => json!({"waiting": {"reason": WAITING[why]}}),
            Container::Running(start) => json!({"running": {"startedAt": time(start)}}),
            Container::Ended(start, end) => {
                json!({"terminated": {"exitCode": 0, "startedAt": time(start), "finishedAt": time(end)}})
            }
        };
        let ips: Vec<String> = self
            .ip
            .into_iter()
            .flat_map(|ip: Ip| self.families.iter().map(move |six| ip.of(*six).to_string()))
            .collect();
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
                "phase": self.phase, "conditions": conditions, "podIP": ips.first().cloned().unwrap_or_default(),
                "podIPs": ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
                "hostIP": format!("192.168.250.{}", 11 + self.node),
                "containerStatuses": [{"name": "c", "state": state, "lastState": {}}],
            },
        });
        if let Some((kind, name)) = self.owner {
            pod["metadata"]["ownerReferences"] =
                json!([{"kind": kind, "name": name, "controller": true}]);
        }
        if !self.attached.is_empty() {
            let ips: Vec<String> = self.attached.iter().map(ToString::to_string).collect();
            let networks = json!([{"name": "second", "ips": ips}]).to_string();
            pod["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/network-status": networks});
        }
        if self.host_port {
            let ports = json!([{"hostPort": 80, "containerPort": PORT, "protocol": "TCP"}]);
            pod["spec"]["containers"][0]["ports"] = ports;
        }
        if self.deleting {
            pod["metadata"]["deletionTimestamp"] = time(0).into();
        }
        pod
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub ip: Ip,
    pub target: Option<Target>,
    pub ready: bool,
    pub terminating: bool,
}

/// A targetRef.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub namespace: &'static str,
    pub name: String,
    pub uid: String,
}

/// A slice of one family; its Service's name is a label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    pub service: &'static str,
    pub six: bool,
    /// Addresses have leading zeros, as old API servers took them: kube-proxy reads them as
    /// decimals.
    pub zeros: bool,
    pub endpoints: Vec<Endpoint>,
}

impl Slice {
    pub fn json(&self, namespace: &str, name: &str) -> Value {
        let shown = |ip: Ip| {
            let [a, b, c, d] = ip.last;
            let zeros = self.zeros && !ip.six;
            if zeros {
                format!("{a:03}.{b:03}.{c:03}.{d:03}")
            } else {
                ip.to_string()
            }
        };
        let endpoints: Vec<Value> = self
            .endpoints
            .iter()
            .map(|endpoint| {
                let mut shown = json!({
                    "addresses": [shown(endpoint.ip)],
                    "conditions": {"ready": endpoint.ready, "serving": endpoint.ready, "terminating": endpoint.terminating},
                });
                if let Some(Target { namespace, name, uid }) = &endpoint.target {
                    shown["targetRef"] = json!({"kind": "Pod", "namespace": namespace, "name": name, "uid": uid});
                }
                shown
            })
            .collect();
        let mut labels = json!({"kubernetes.io/service-name": self.service});
        if name.contains("-auto") {
            labels["endpointslice.kubernetes.io/managed-by"] =
                json!("endpointslice-controller.k8s.io");
        }
        json!({
            "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "addressType": if self.six { "IPv6" } else { "IPv4" }, "endpoints": endpoints,
            "ports": [{"name": "http", "protocol": "TCP", "port": PORT}],
        })
    }
}

/// Who writes the slices of a Service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// The EndpointSlice controller.
    Controller,
    /// One pod leads: as with Patroni, the writer compares the IP alone, and keeps the targetRef
    /// while that is the same.
    Leader,
    /// Both, a slice each.
    Both,
    /// One that copies what slices of another Service list, now and then: its number.
    Copy(usize),
}

/// A Service; the same for all time, but for its addresses and its namespace's annotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    pub namespace: &'static str,
    pub name: &'static str,
    /// Value of the label `app`; none: no selector.
    pub selects: Option<&'static str>,
    pub writer: Writer,
    pub vip: Ip,
    pub publishes_unready: bool,
}

impl Service {
    /// The object, with further addresses.
    pub fn json(&self, external: &[Ip]) -> Value {
        let vips = [false, true].map(|six| self.vip.of(six).to_string());
        let external: Vec<String> = external.iter().map(ToString::to_string).collect();
        let mut service = json!({
            "metadata": {"namespace": self.namespace, "name": self.name, "uid": format!("service-{}", self.name)},
            "spec": {
                "clusterIP": vips[0], "clusterIPs": vips, "externalIPs": external,
                "publishNotReadyAddresses": self.publishes_unready,
                "ports": [{"name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP"}],
            },
        });
        if let Some(app) = self.selects {
            service["spec"]["selector"] = json!({"app": app});
        }
        service
    }

    /// The slices that its writers keep.
    pub fn slices(&self) -> impl Iterator<Item = String> {
        let suffixes = ["auto", "auto6", "leader", "leader6", "custom", "custom6"];
        suffixes
            .into_iter()
            .map(move |suffix| format!("{}-{suffix}", self.name))
    }
}

/// The Services of a history: which selector and writer `front` and `pg` have.
pub fn services(front: usize, pg: usize) -> [Service; 4] {
    let front = [
        (Some("web"), Writer::Controller),
        (None, Writer::Copy(0)),
        (None, Writer::Copy(2)),
    ][front];
    // The second one's selector means something to its own controller alone.
    let selectors = [
        (None, Writer::Leader),
        (Some("its-leader"), Writer::Leader),
        (Some("pg"), Writer::Both),
    ];
    let service = |namespace, name, (selects, writer), number, publishes_unready| Service {
        namespace,
        name,
        selects,
        writer,
        vip: Ip::four([10, 96, 0, number]),
        publishes_unready,
    };
    [
        service("shop", "web", (Some("web"), Writer::Controller), 1, false),
        service("shop", "front", front, 2, false),
        service("other", "api", (Some("api"), Writer::Controller), 3, true),
        service("shop", "pg", selectors[pg], 4, false),
    ]
}

/// Everything that the API stores and that changes, typed.
#[derive(Clone, Default, Debug)]
pub struct Objects {
    /// By namespace and name.
    pub pods: BTreeMap<(&'static str, String), PodObject>,
    pub slices: BTreeMap<(&'static str, String), Slice>,
    /// `epguard.io/mode` by namespace.
    pub modes: BTreeMap<&'static str, &'static str>,
    /// Further addresses, by the number of the Service, or of the Node after those.
    pub addresses: BTreeMap<usize, Ip>,
}

impl Objects {
    pub fn pod_of(&self, uid: &str) -> Option<(&(&'static str, String), &PodObject)> {
        self.pods.iter().find(|(_, pod)| pod.uid == uid)
    }

    /// The slices of a Service, by name.
    pub fn slices_of<'a>(
        &'a self,
        service: &'a Service,
    ) -> impl Iterator<Item = (&'a String, &'a Slice)> {
        let slices = self.slices.iter().filter(|((namespace, _), slice)| {
            *namespace == service.namespace && slice.service == service.name
        });
        slices.map(|((_, name), slice)| (name, slice))
    }

    /// The endpoints that they list at an IP.
    pub fn listed<'a>(
        &'a self,
        service: &'a Service,
        ip: Ip,
    ) -> impl Iterator<Item = &'a Endpoint> {
        let endpoints = self
            .slices_of(service)
            .flat_map(|(_, slice)| &slice.endpoints);
        endpoints.filter(move |endpoint| endpoint.ip == ip)
    }
}

pub fn namespace(name: &str, mode: Option<&str>) -> Value {
    let mut namespace = json!({"metadata": {"name": name, "uid": format!("namespace-{name}")}});
    if let Some(mode) = mode {
        namespace["metadata"]["annotations"] = json!({"epguard.io/mode": mode});
    }
    namespace
}

/// A Node; none while there is none of this number.
pub fn node(cluster: &Cluster, number: usize, more: &[Ip]) -> Option<Value> {
    let range = cluster.ranges[number]?;
    let [first, _] = Cluster::range(range);
    let [a, b, c, _] = first.last;
    let cidrs = match cluster.ipam {
        Ipam::Node | Ipam::ClusterDespiteRanges => {
            vec![
                format!("{a}.{b}.{c}.0/24"),
                format!("{}/120", first.of(true)),
            ]
        }
        Ipam::Cluster => vec![],
    };
    let own = format!("192.168.250.{}", 11 + number);
    let addresses = more.iter().map(ToString::to_string).chain([own]);
    let kind = if cluster.kubelets[number] == Kubelet::Virtual {
        "virtual-kubelet"
    } else {
        ""
    };
    Some(json!({
        "metadata": {"name": NODE_NAMES[number], "uid": format!("node-{number}-{range}"), "labels": {"type": kind}},
        "spec": {"podCIDRs": cidrs},
        "status": {
            "addresses": addresses.map(|address| json!({"type": "InternalIP", "address": address})).collect::<Vec<_>>(),
            "nodeInfo": {"bootID": format!("boot-{number}-{range}")},
        },
    }))
}

/// A second of the model as the API writes it.
fn time(second: u64) -> String {
    let hours = second / 3600;
    let minutes = second / 60 % 60;
    let seconds = second % 60;
    format!("2026-01-01T{hours:02}:{minutes:02}:{seconds:02}Z")
}
