//! The objects of a cluster, read from JSON as the API server sends it.

use epguard_core::facts::{Namespace, Node, Object, Pod, Service, Slice};
use serde_json::{Value, json};
use std::ops::Range;

/// Recorded at a real cluster, with the managedFields of its writers.
const RECORDED: &str = include_str!("../../../../lab/traces/a-rolling-update/pods.jsonl");

/// The size of a cluster.
pub struct Shape {
    pub nodes: usize,
    pub namespaces: usize,
    pub pods: usize,
    pub first: ServiceShape,
    /// Each Service but the first.
    pub others: ServiceShape,
}

/// The size of a Service.
#[derive(Clone, Copy)]
pub struct ServiceShape {
    pub pods: usize,
    pub pods_per_slice: usize,
}

/// Makes the objects. Each pod has its Deployment's number.
pub struct Objects {
    shape: Shape,
    /// The pod that all others are copies of.
    recorded: Value,
}

impl Objects {
    pub fn new(shape: Shape) -> Self {
        let lines = RECORDED.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut objects = lines.map(|mut line| line["event"]["object"].take());
        let has_ip = |pod: &Value| pod["status"]["phase"] == "Running" && pod["status"]["podIP"].is_string();
        let recorded = objects.find(has_ip).expect("the recording has a pod with an IP");
        Self { shape, recorded }
    }

    pub fn nodes(&self) -> Vec<Node> {
        (0..self.shape.nodes).map(node).collect()
    }

    pub fn namespaces(&self) -> Vec<Namespace> {
        let namespaces = 0..self.shape.namespaces.min(self.service_count());
        namespaces.map(|number| read(&json!({"metadata": {"name": self.namespace(number)}}))).collect()
    }

    pub fn services(&self) -> Vec<Service> {
        let services = (0..self.service_count()).map(|service| {
            let [high, low] = bytes(service + 1);
            let vip = format!("172.16.{high}.{low}");
            let name = app(service);
            json!({
                "metadata": {"namespace": self.namespace(service), "name": name, "uid": uid(2, service)},
                "spec": {
                    "selector": {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": format!("{name}-prod")},
                    "clusterIP": vip, "clusterIPs": [vip],
                    "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
                },
            })
        });
        services.map(|service| read(&service)).collect()
    }

    pub fn pods(&self) -> Vec<Pod> {
        (0..self.shape.pods).map(|pod| self.pod(pod)).collect()
    }

    pub fn slices(&self) -> Vec<Slice> {
        let (first, all) = (self.shape.first.pods, self.shape.pods);
        let of_first = chunks(0..first, self.shape.first.pods_per_slice);
        let of_others = chunks(first..all, self.shape.others.pods_per_slice);
        let slices = of_first.chain(of_others);
        slices.map(|pods| self.slice(pods)).collect()
    }

    /// One pod, read from some 6 KB.
    pub fn pod(&self, pod: usize) -> Pod {
        let service = self.service_of(pod);
        let name = app(service);
        let mut object = self.recorded.clone();
        object["metadata"]["name"] = pod_name(service, pod).into();
        object["metadata"]["namespace"] = self.namespace(service).into();
        object["metadata"]["uid"] = uid(1, pod).into();
        object["metadata"]["labels"] = json!({
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/instance": format!("{name}-prod"),
            "app.kubernetes.io/version": "1.27.3",
            "app.kubernetes.io/component": "backend",
            "app.kubernetes.io/managed-by": "Helm",
            "pod-template-hash": hash(service),
        });
        let ip = self.ip(pod);
        object["spec"]["nodeName"] = node_name(pod % self.shape.nodes).into();
        object["status"]["podIP"] = ip.clone().into();
        object["status"]["podIPs"] = json!([{"ip": ip}]);
        read(&object)
    }

    /// One slice.
    pub fn slice(&self, pods: Range<usize>) -> Slice {
        let (first, service) = (pods.start, self.service_of(pods.start));
        let endpoints = pods.map(|pod| {
            let target = json!({
                "kind": "Pod", "namespace": self.namespace(service), "name": pod_name(service, pod),
                "uid": uid(1, pod),
            });
            let conditions = json!({"ready": true, "serving": true, "terminating": false});
            json!({"addresses": [self.ip(pod)], "conditions": conditions, "targetRef": target})
        });
        read(&json!({
            "metadata": {
                "namespace": self.namespace(service), "name": format!("{}-{first:05x}", app(service)),
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

    fn service_count(&self) -> usize {
        1 + (self.shape.pods - self.shape.first.pods).div_ceil(self.shape.others.pods)
    }

    fn service_of(&self, pod: usize) -> usize {
        let later = pod.checked_sub(self.shape.first.pods);
        later.map_or(0, |pod| 1 + pod / self.shape.others.pods)
    }

    fn namespace(&self, service: usize) -> String {
        format!("team-{}", service % self.shape.namespaces)
    }

    /// In the range of the pod's node.
    fn ip(&self, pod: usize) -> String {
        let [high, low] = bytes(pod % self.shape.nodes);
        format!("10.{high}.{low}.{}", 2 + pod / self.shape.nodes)
    }
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

/// Parts of the range that are at most so long.
fn chunks(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(most).map(move |start| start..end.min(start + most))
}
