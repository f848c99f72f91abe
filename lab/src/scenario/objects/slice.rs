//! An `EndpointSlice` of the `EndpointSlice` controller.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::PodName;
use super::service::port;
use crate::scenario::format::{Condition, Service};

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
    let ports: Vec<Value> = service
        .protocols
        .iter()
        .map(|protocol| {
            let mut port = port(*protocol);
            port["port"] = service.target_port.into();
            port
        })
        .collect();
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
