//! A node.

use std::net::IpAddr;

use serde_json::{Value, json};

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
