//! Builds API objects like those of a Kubernetes 1.36 cluster from a story's few fields.

mod pod;

use crate::scenario::format::{Condition, Service, Wire};
pub use pod::{Clock, Container, Phase, PodName, PodObject};
use serde_json::{Value, json};
use std::net::IpAddr;

/// A readable UID: the `number`th of its `kind`.
pub fn uid(kind: u16, number: usize) -> String {
    format!("{number:08x}-{kind:04x}-4000-8000-{number:012x}")
}

/// A ready node with these addresses and pod CIDRs.
pub fn node(name: &str, uid: &str, addresses: &[IpAddr], pod_cidrs: &[String]) -> Value {
    let mut listed: Vec<Value> =
        addresses.iter().map(|address| json!({"type": "InternalIP", "address": address})).collect();
    listed.push(json!({"type": "Hostname", "address": name}));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": uid, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "spec": {"podCIDR": pod_cidrs.first(), "podCIDRs": pod_cidrs},
        "status": {
            "addresses": listed,
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

/// The Service `namespace/name`.
pub fn service(namespace: &str, name: &str, uid: &str, service: &Service, frontends: Frontends) -> Value {
    let ports: Vec<Value> = (0..)
        .zip(&service.protocols)
        .map(|(index, protocol)| {
            let mut port = port(*protocol);
            port["port"] = service.port.into();
            port["targetPort"] = service.target_port.into();
            if let Some(first) = frontends.node_port {
                port["nodePort"] = (first + index).into();
            }
            port
        })
        .collect();
    let vips: Vec<IpAddr> = [frontends.vip].into_iter().chain(frontends.other_family).collect();
    let family = |ip: &IpAddr| if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let families: Vec<&str> = vips.iter().map(family).collect();
    let policy = if vips.len() == 1 { "SingleStack" } else { "RequireDualStack" };
    let kind = if frontends.node_port.is_some() { "NodePort" } else { "ClusterIP" };
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "annotations": service.annotations},
        "spec": {
            "type": kind, "clusterIP": frontends.vip, "clusterIPs": vips, "ports": ports,
            "ipFamilies": families, "ipFamilyPolicy": policy, "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    });
    if let Some(selector) = &service.selector {
        object["spec"]["selector"] = json!(selector);
    }
    if service.publish_not_ready_addresses {
        object["spec"]["publishNotReadyAddresses"] = true.into();
    }
    if frontends.node_port.is_some() {
        object["spec"]["externalTrafficPolicy"] = "Cluster".into();
    }
    object
}

/// One endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The pod.
    pub pod: PodName,
    /// The pod's node.
    pub node: String,
    /// The address that the slice lists.
    pub ip: IpAddr,
    /// Ready, serving, terminating.
    pub condition: Condition,
}

/// The slice `id` of the Service (namespace, name), with all its endpoints of a family.
pub fn slice(
    (namespace, name): (String, String),
    (id, ipv4): (&str, bool),
    service: &Service,
    endpoints: &[Endpoint],
) -> Value {
    let family = if ipv4 { "IPv4" } else { "IPv6" };
    let port_of = |protocol: &Wire| {
        let mut port = port(*protocol);
        port["port"] = service.target_port.into();
        port
    };
    let ports: Vec<Value> = service.protocols.iter().map(port_of).collect();
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|endpoint| {
            let [ready, serving, terminating] = endpoint.condition.flags();
            let PodName { namespace, name, uid, .. } = &endpoint.pod;
            json!({
                "addresses": [endpoint.ip],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid},
                "nodeName": endpoint.node,
            })
        })
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": format!("{name}-{id}"), "generateName": format!("{name}-"),
            "labels": {
                "kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": family,
        "endpoints": endpoints, "ports": ports,
    })
}

/// Name and protocol of a port.
fn port(protocol: Wire) -> Value {
    let name = protocol.to_string();
    json!({"name": name, "protocol": name.to_uppercase()})
}
