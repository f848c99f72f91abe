//! A Service, and its slices as the `EndpointSlice` controller writes them.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::PodName;
use crate::scenario::format::{Condition, Service, Wire};

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
