//! Builds API objects like those of a Kubernetes 1.36 cluster from a story's few fields.

mod pod;

use crate::net::Node;
use crate::proxy::Protocol;
use crate::scenario::format::{Condition, Service, Wire};
use crate::scenario::names::split;
pub use pod::{Clock, Container, Phase, PodName, PodObject};
use serde_json::{Value, json};
use std::net::IpAddr;

/// A readable UID: the `number`th of its `kind`.
pub fn uid(kind: u16, number: usize) -> String {
    format!("{number:08x}-{kind:04x}-4000-8000-{number:012x}")
}

/// A ready node, the `number`th.
pub fn node(node: &Node, number: usize) -> Value {
    let (name, uid) = (&node.name, uid(0x0de, number));
    let cidrs = node.pod_cidrs().map(|(base, length)| format!("{base}/{length}"));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": uid, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": node.ipv4}, {"type": "InternalIP", "address": node.ipv6},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {
                "bootID": uid, "kubeletVersion": "v1.36.2", "containerRuntimeVersion": "containerd://2.1.9",
                "architecture": "amd64", "operatingSystem": "linux", "kernelVersion": "6.18.0", "osImage": "lab",
                "machineID": uid, "systemUUID": uid, "kubeProxyVersion": "",
            },
        },
    })
}

/// The addresses of a Service.
#[derive(Clone, Copy, Debug)]
pub struct Frontends {
    /// Its cluster IP.
    pub vip: IpAddr,
    /// Its cluster IP of the other family.
    pub other_family: Option<IpAddr>,
    /// The `NodePort` of its first port; the next ones follow.
    pub node_port: Option<u16>,
}

/// The `number`th Service, `namespace/name`.
pub fn service(full_name: &str, number: usize, service: &Service, frontends: Frontends) -> Value {
    let ((namespace, name), uid) = (split(full_name), uid(0x5ec, number));
    let ports = (0..).zip(&service.protocols).map(|(index, wire)| {
        without_nulls(&json!({
            "name": wire.to_string(), "protocol": Protocol::from(*wire).as_str(), "port": service.port,
            "targetPort": service.target_port, "nodePort": frontends.node_port.map(|first| first + index),
        }))
    });
    let vips: Vec<IpAddr> = [frontends.vip].into_iter().chain(frontends.other_family).collect();
    let families: Vec<&str> = vips.iter().map(|vip| family(vip.is_ipv4())).collect();
    let has_node_ports = frontends.node_port.is_some();
    without_nulls(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "annotations": service.annotations},
        "spec": {
            "type": if has_node_ports { "NodePort" } else { "ClusterIP" },
            "clusterIP": frontends.vip, "clusterIPs": vips, "ports": ports.collect::<Value>(),
            "ipFamilies": families, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ipFamilyPolicy": if vips.len() == 1 { "SingleStack" } else { "RequireDualStack" },
            "externalTrafficPolicy": has_node_ports.then_some("Cluster"), "selector": service.selector,
            "publishNotReadyAddresses": service.publish_not_ready_addresses.then_some(true),
        },
        "status": {"loadBalancer": {}},
    }))
}

/// The endpoint of a pod at an address.
pub fn endpoint(pod: &PodName, node: &str, ip: IpAddr, condition: Condition) -> Value {
    let [ready, serving, terminating] = condition.flags();
    let PodName { namespace, name, uid, .. } = pod;
    json!({
        "addresses": [ip], "nodeName": node,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid},
    })
}

/// The slice `id` of the Service `namespace/name`, with all its endpoints of a family.
pub fn slice(full_name: &str, (id, ipv4): (&str, bool), service: &Service, endpoints: &[Value]) -> Value {
    let (namespace, name) = split(full_name);
    let port = |wire: &Wire| {
        let protocol = Protocol::from(*wire).as_str();
        json!({"name": wire.to_string(), "protocol": protocol, "port": service.target_port})
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": format!("{name}-{id}"), "generateName": format!("{name}-"),
            "labels": {
                "kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": family(ipv4),
        "endpoints": endpoints, "ports": service.protocols.iter().map(port).collect::<Value>(),
    })
}

fn family(ipv4: bool) -> &'static str {
    if ipv4 { "IPv4" } else { "IPv6" }
}

/// The object without its null fields.
fn without_nulls(object: &Value) -> Value {
    let mut fields = json!({});
    json_patch::merge(&mut fields, object);
    fields
}
