//! An `EndpointSlice` of the `EndpointSlice` controller.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::service::port_name;
use crate::scenario::format::{Condition, Service};

/// One endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The pod's namespace and name.
    pub pod: (String, String),
    /// The pod's UID.
    pub uid: String,
    /// The pod's node.
    pub node: String,
    /// The address that the slice lists.
    pub ip: IpAddr,
    /// Ready, serving, terminating.
    pub condition: Condition,
}

/// The only slice of the Service `namespace/name`.
#[must_use]
pub fn slice(namespace: &str, name: &str, ipv4: bool, service: &Service, endpoints: &[Endpoint]) -> Value {
    let ports: Vec<Value> = service
        .protocols
        .iter()
        .map(|protocol| {
            let name = port_name(*protocol);
            json!({"name": name, "protocol": name.to_uppercase(), "port": service.target_port})
        })
        .collect();
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|endpoint| {
            let [ready, serving, terminating] = endpoint.condition.flags();
            let (namespace, name) = &endpoint.pod;
            json!({
                "addresses": [endpoint.ip],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": endpoint.uid},
                "nodeName": endpoint.node,
            })
        })
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": format!("{name}-lab"), "generateName": format!("{name}-"),
            "labels": {
                "kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": if ipv4 { "IPv4" } else { "IPv6" },
        "endpoints": endpoints, "ports": ports,
    })
}
