//! A cluster as the API shows it: Deployments of ten pods, each with a Service of two slices; 100 pods on a node.

use epguard_core::facts::{Namespace, Node, Object, Pod, Service, Slice};
use serde_json::{Value, json};

/// Pods of a Deployment, which one Service selects.
const REPLICAS: usize = 10;
/// Pods that a slice lists.
const LISTED: usize = 5;
/// Services of a namespace.
const SERVICES: usize = 10;
/// Pods of a node.
const ON_NODE: usize = 100;

/// Recorded at a real cluster, with the managedFields of its writers.
const RECORDED: &str = include_str!("../../../../lab/traces/a-rolling-update/pods.jsonl");

/// A cluster of some size.
pub struct Cluster {
    pods: usize,
    /// The pod that all others are copies of.
    recorded: Value,
}

impl Cluster {
    pub fn of(pods: usize) -> Self {
        let lines = RECORDED
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut objects = lines.map(|mut line| line["event"]["object"].take());
        let has_ip = |pod: &Value| pod["status"]["phase"] == "Running" && pod["status"]["podIP"].is_string();
        let recorded = objects.find(has_ip).expect("the recording has a pod with an IP");
        Self { pods, recorded }
    }

    pub fn nodes(&self) -> Vec<Node> {
        let nodes = (0..self.node_count()).map(|node| {
            let [high, low] = bytes(node);
            let address = format!("192.168.{high}.{low}");
            json!({
                "metadata": {"name": node_name(node), "labels": {"topology.kubernetes.io/zone": "zone-a"}},
                "spec": {"podCIDR": format!("10.{high}.{low}.0/24")},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": address}],
                    "nodeInfo": {"bootID": uid(4, node)},
                },
            })
        });
        nodes.map(|node| read(&node)).collect()
    }

    pub fn namespaces(&self) -> Vec<Namespace> {
        let first_services = (0..self.pods / REPLICAS).step_by(SERVICES);
        let namespaces = first_services.map(|service| json!({"metadata": {"name": namespace(service)}}));
        namespaces.map(|namespace| read(&namespace)).collect()
    }

    pub fn services(&self) -> Vec<Service> {
        let services = (0..self.pods / REPLICAS).map(|service| {
            let [high, low] = bytes(service);
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

    /// All pods after so many rolling updates of everything.
    pub fn pods(&self, round: usize) -> Vec<Pod> {
        (0..self.pods).map(|pod| self.pod(pod, round)).collect()
    }

    /// All slices after so many rolling updates of everything.
    pub fn slices(&self, round: usize) -> Vec<Slice> {
        (0..self.pods / LISTED)
            .map(|slice| self.slice(slice, round))
            .collect()
    }

    /// One pod, read from some 6 KB.
    pub fn pod(&self, pod: usize, round: usize) -> Pod {
        let service = pod / REPLICAS;
        let name = app(service);
        let mut object = self.recorded.clone();
        object["metadata"]["name"] = pod_name(pod, round).into();
        object["metadata"]["namespace"] = namespace(service).into();
        object["metadata"]["uid"] = uid(1 + 16 * round, pod).into();
        object["metadata"]["labels"] = json!({
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/instance": format!("{name}-prod"),
            "app.kubernetes.io/version": "1.27.3",
            "app.kubernetes.io/component": "backend",
            "app.kubernetes.io/managed-by": "Helm",
            "pod-template-hash": hash(service, round),
        });
        let ip = self.ip(pod);
        object["spec"]["nodeName"] = node_name(pod % self.node_count()).into();
        object["status"]["podIP"] = ip.clone().into();
        object["status"]["podIPs"] = json!([{"ip": ip}]);
        read(&object)
    }

    /// One slice.
    pub fn slice(&self, slice: usize, round: usize) -> Slice {
        let service = slice * LISTED / REPLICAS;
        let listed = (slice * LISTED..).take(LISTED);
        let endpoints = listed.map(|pod| {
            let target = json!({
                "kind": "Pod", "namespace": namespace(service), "name": pod_name(pod, round), "uid": uid(1 + 16 * round, pod),
            });
            let conditions = json!({"ready": true, "serving": true, "terminating": false});
            json!({"addresses": [self.ip(pod)], "conditions": conditions, "targetRef": target})
        });
        read(&json!({
            "metadata": {
                "namespace": namespace(service), "name": format!("{}-{:05x}", app(service), slice),
                "labels": {"kubernetes.io/service-name": app(service)},
            },
            "addressType": "IPv4",
            "endpoints": endpoints.collect::<Vec<Value>>(),
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }))
    }

    fn node_count(&self) -> usize {
        self.pods.div_ceil(ON_NODE)
    }

    /// In the range of the pod's node.
    fn ip(&self, pod: usize) -> String {
        let [high, low] = bytes(pod % self.node_count());
        format!("10.{high}.{low}.{}", 2 + pod / self.node_count())
    }
}

fn read<O: Object>(object: &Value) -> O {
    let json = object.to_string();
    O::parse(json.as_bytes()).expect("the object can be read")
}

fn node_name(node: usize) -> String {
    format!("ip-192-168-{node}.eu-central-1.compute.internal")
}

fn namespace(service: usize) -> String {
    format!("team-{}", service / SERVICES)
}

fn app(service: usize) -> String {
    format!("checkout-{service}")
}

fn pod_name(pod: usize, round: usize) -> String {
    let service = pod / REPLICAS;
    format!("{}-{}-{:05x}", app(service), hash(service, round), pod)
}

/// As a `ReplicaSet` has it.
fn hash(service: usize, round: usize) -> String {
    format!("{:010x}", (service + 1) * 7_919 + round)
}

fn uid(kind: usize, number: usize) -> String {
    // Spread over the whole range, as random ones are.
    let spread = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-{kind:04x}-4000-8000-{number:012x}", spread >> 32)
}

fn bytes(number: usize) -> [usize; 2] {
    [number / 256, number % 256]
}
