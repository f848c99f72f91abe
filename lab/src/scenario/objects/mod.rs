//! Builds API objects like those of a Kubernetes 1.36 cluster from a story's few fields.

mod pod;
mod service;

use std::net::IpAddr;

use serde_json::{Value, json};

pub use pod::{Clock, Container, Phase, PodName, PodObject};
pub use service::{Endpoint, Frontends, service, slice};

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
