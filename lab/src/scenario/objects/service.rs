//! A Service.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::scenario::format::{Service, Wire};

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

/// Name and protocol of a port.
pub(super) fn port(protocol: Wire) -> Value {
    let name = protocol.to_string();
    json!({"name": name, "protocol": name.to_uppercase()})
}
