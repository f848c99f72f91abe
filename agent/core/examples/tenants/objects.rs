//! The objects of a cluster, read from JSON as the API server sends it.

use epguard_core::facts::{Namespace, Node, Object, Pod, Service, Slice};
use serde_json::{Value, json};
use std::ops::Range;

/// Recorded at a real cluster, with the managedFields of its writers.
const RECORDED: &str = include_str!("../../../../lab/traces/a-rolling-update/pods.jsonl");

pub const NODES: usize = 5_000;
const NAMESPACES: usize = 100;
/// Pods of the first Service, all in one slice.
pub const LARGE: usize = 100;
/// The other Services, and the pods of each.
const SERVICES: usize = 2_000;
const PODS_OF_A_SERVICE: usize = 5;
const PODS: usize = LARGE + SERVICES * PODS_OF_A_SERVICE;

/// Makes the objects. Each pod has its Deployment's number.
pub struct Objects {
    /// The pod that all others are copies of.
    recorded: Value,
}

impl Objects {
    pub fn new() -> Self {
        let lines = RECORDED.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut objects = lines.map(|mut line| line["event"]["object"].take());
        let has_ip = |pod: &Value| pod["status"]["phase"] == "Running" && pod["status"]["podIP"].is_string();
        let recorded = objects.find(has_ip).expect("the recording has a pod with an IP");
        Self { recorded }
    }

    pub fn pods(&self) -> Vec<Pod> {
        (0..PODS).map(|pod| self.pod(pod)).collect()
    }

    /// One pod, read from some 6 KB.
    pub fn pod(&self, pod: usize) -> Pod {
        let service = service_of(pod);
        let name = app(service);
        let mut object = self.recorded.clone();
        object["metadata"]["name"] = pod_name(service, pod).into();
        object["metadata"]["namespace"] = namespace(service).into();
        object["metadata"]["uid"] = uid(1, pod).into();
        object["metadata"]["labels"] = json!({
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/instance": format!("{name}-prod"),
            "app.kubernetes.io/version": "1.27.3",
            "app.kubernetes.io/component": "backend",
            "app.kubernetes.io/managed-by": "Helm",
            "pod-template-hash": hash(service),
        });
        let ip = ip(pod);
        object["spec"]["nodeName"] = node_name(pod % NODES).into();
        object["status"]["podIP"] = ip.clone().into();
        object["status"]["podIPs"] = json!([{"ip": ip}]);
        read(&object)
    }
}

pub fn nodes() -> Vec<Node> {
    (0..NODES).map(node).collect()
}

pub fn namespaces() -> Vec<Namespace> {
    (0..NAMESPACES).map(|number| read(&json!({"metadata": {"name": namespace(number)}}))).collect()
}

pub fn services() -> Vec<Service> {
    let services = (0..=SERVICES).map(|service| {
        let [high, low] = bytes(service + 1);
        let vip = format!("172.16.{high}.{low}");
        let name = app(service);
        json!({
            "metadata": {"namespace": namespace(service), "name": name, "uid": uid(2, service)},
            "spec": {
                "selector": {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": format!("{name}-prod")},
                "clusterIP": vip, "clusterIPs": [vip],
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
            },
        })
    });
    services.map(|service| read(&service)).collect()
}

pub fn slices() -> Vec<Slice> {
    let of_others = (LARGE..PODS).step_by(PODS_OF_A_SERVICE).map(|first| first..first + PODS_OF_A_SERVICE);
    std::iter::once(0..LARGE).chain(of_others).map(slice).collect()
}

fn slice(pods: Range<usize>) -> Slice {
    let (first, service) = (pods.start, service_of(pods.start));
    let endpoints = pods.map(|pod| {
        let target = json!({
            "kind": "Pod", "namespace": namespace(service), "name": pod_name(service, pod), "uid": uid(1, pod),
        });
        let conditions = json!({"ready": true, "serving": true, "terminating": false});
        json!({"addresses": [ip(pod)], "conditions": conditions, "targetRef": target})
    });
    read(&json!({
        "metadata": {
            "namespace": namespace(service), "name": format!("{}-{first:05x}", app(service)),
            "labels": {
                "kubernetes.io/service-name": app(service),
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": "IPv4",
        "endpoints": endpoints.collect::<Vec<Value>>(),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }))
}

fn service_of(pod: usize) -> usize {
    pod.checked_sub(LARGE).map_or(0, |pod| 1 + pod / PODS_OF_A_SERVICE)
}

fn namespace(service: usize) -> String {
    format!("team-{}", service % NAMESPACES)
}

/// In the range of the pod's node.
fn ip(pod: usize) -> String {
    let [high, low] = bytes(pod % NODES);
    format!("10.{high}.{low}.{}", 2 + pod / NODES)
}

fn node(number: usize) -> Node {
    let [high, low] = bytes(number);
    read(&json!({
        "metadata": {"name": node_name(number), "labels": {"topology.kubernetes.io/zone": "zone-a"}},
        "spec": {"podCIDR": format!("10.{high}.{low}.0/24")},
        "status": {
            "addresses": [{"type": "InternalIP", "address": format!("192.168.{high}.{low}")}],
            "nodeInfo": {"bootID": uid(4, number)},
        },
    }))
}

fn read<O: Object>(object: &Value) -> O {
    let json = object.to_string();
    O::parse(json.as_bytes()).expect("the object can be read")
}

pub fn node_name(node: usize) -> String {
    format!("ip-192-168-{node}.eu-central-1.compute.internal")
}

fn app(service: usize) -> String {
    format!("checkout-{service}")
}

fn pod_name(service: usize, pod: usize) -> String {
    format!("{}-{}-{pod:05x}", app(service), hash(service))
}

/// As a `ReplicaSet` has it.
fn hash(service: usize) -> String {
    format!("{:010x}", (service + 1) * 7_919)
}

fn uid(kind: usize, number: usize) -> String {
    // Spread over the whole range, as random ones are.
    let spread = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-{kind:04x}-4000-8000-{number:012x}", spread >> 32)
}

fn bytes(number: usize) -> [usize; 2] {
    [number / 256, number % 256]
}
