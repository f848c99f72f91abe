//! A Service.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::scenario::format::{Service, Wire};

/// The addresses of a Service.
#[derive(Clone, Copy, Debug)]
pub struct Frontends {
    /// Its cluster IP.
    pub vip: IpAddr,
    /// The `NodePort` of its first port; the next ones follow.
    pub node_port: Option<u16>,
}

/// The Service `namespace/name`.
#[must_use]
pub fn service(namespace: &str, name: &str, uid: &str, service: &Service, frontends: Frontends) -> Value {
    let ports: Vec<Value> = (0..)
        .zip(&service.protocols)
        .map(|(index, protocol)| {
            let mut port = json!({
                "name": port_name(*protocol), "protocol": port_name(*protocol).to_uppercase(),
                "port": service.port, "targetPort": service.target_port,
            });
            if let Some(first) = frontends.node_port {
                port["nodePort"] = (first + index).into();
            }
            port
        })
        .collect();
    let family = if frontends.vip.is_ipv4() { "IPv4" } else { "IPv6" };
    let kind = if frontends.node_port.is_some() {
        "NodePort"
    } else {
        "ClusterIP"
    };
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "annotations": service.annotations},
        "spec": {
            "type": kind, "clusterIP": frontends.vip, "clusterIPs": [frontends.vip], "ports": ports,
            "ipFamilies": [family], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
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

/// `tcp` or `udp`.
pub(super) fn port_name(protocol: Wire) -> &'static str {
    match protocol {
        Wire::Tcp => "tcp",
        Wire::Udp => "udp",
    }
}
