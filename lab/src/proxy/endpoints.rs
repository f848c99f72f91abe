//! From Service and `EndpointSlice` objects to rules, the way kube-proxy does it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::objects::{Endpoint, Service, ServicePort, Slice};
use super::{Frontend, ServiceRule};

/// The rules that kube-proxy would program for these Services and `EndpointSlices` (JSON objects of the API). Per address
/// family they have every ready endpoint, else every serving and terminating one (KEP-1669). Headless and `ExternalName`
/// Services have none. Like kube-proxy it takes `publishNotReadyAddresses` from the slices, whose endpoints are then all
/// `ready`. Fields that cannot be parsed are left out. `node` is the proxy's own.
pub fn service_rules(services: &[Value], slices: &[Value], node: &str) -> Vec<ServiceRule> {
    let slices: Vec<Slice> = parse(slices);
    parse::<Service>(services).iter().flat_map(|service| rules(service, &slices, node)).collect()
}

fn parse<T: DeserializeOwned>(objects: &[Value]) -> Vec<T> {
    objects.iter().filter_map(|object| T::deserialize(object).ok()).collect()
}

fn rules(service: &Service, slices: &[Slice], node: &str) -> Vec<ServiceRule> {
    let (metadata, spec) = (&service.metadata, &service.spec);
    let one = std::slice::from_ref(&spec.cluster_ip);
    let vips = addresses(if spec.cluster_ips.is_empty() { one } else { &spec.cluster_ips });
    if spec.kind == "ExternalName" || vips.is_empty() {
        return Vec::new();
    }
    let own: Vec<&Slice> = slices.iter().filter(|slice| slice.belongs_to(metadata)).collect();
    let to = |port: &ServicePort, node: Option<&str>| {
        let families = [false, true].into_iter();
        families.flat_map(|ipv6| backends(&own, port, node, ipv6)).collect()
    };
    let is_local = spec.external_traffic_policy == "Local";
    let rule = |port: &ServicePort| ServiceRule {
        name: format!("{}/{}:{}", metadata.namespace, metadata.name, port.name),
        protocol: port.protocol,
        frontends: frontends(service, &vips, port),
        backends: to(port, None),
        affinity: spec.session_affinity == "ClientIP",
        local: is_local.then(|| to(port, Some(node))),
    };
    spec.ports.iter().map(rule).collect()
}

/// The addresses among these texts; `None`, an empty text and host names are left out.
fn addresses(texts: &[String]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn frontends(service: &Service, vips: &[IpAddr], port: &ServicePort) -> Vec<Frontend> {
    let at = |ip: &IpAddr| SocketAddr::new(*ip, port.port);
    let ingress: Vec<_> =
        service.status.load_balancer.ingress.iter().map(|ingress| ingress.ip.clone()).collect();
    let external = [addresses(&service.spec.external_ips), addresses(&ingress)].concat();
    let node_ports = vips.iter().filter(|_| port.node_port != 0);
    vips.iter()
        .map(|ip| Frontend::ClusterIp(at(ip)))
        .chain(external.iter().map(|ip| Frontend::External(at(ip))))
        .chain(node_ports.map(|family| Frontend::NodePort { family: *family, port: port.node_port }))
        .collect()
}

/// The backends on one node, or all.
fn backends(slices: &[&Slice], port: &ServicePort, node: Option<&str>, ipv6: bool) -> BTreeSet<SocketAddr> {
    let (mut ready, mut fallback) = (BTreeSet::new(), BTreeSet::new());
    for slice in slices {
        for number in target_ports(slice, port) {
            for endpoint in slice.endpoints.iter().flatten() {
                let Some(ip) = first_address(endpoint).filter(|ip| ip.is_ipv6() == ipv6) else {
                    continue;
                };
                if node.is_some() && endpoint.node_name.as_deref() != node {
                    continue;
                }
                if endpoint.is_ready() {
                    ready.insert(SocketAddr::new(ip, number));
                } else if endpoint.is_fallback() {
                    fallback.insert(SocketAddr::new(ip, number));
                }
            }
        }
    }
    if ready.is_empty() { fallback } else { ready }
}

/// A slice's port belongs to the Service port of the same name.
fn target_ports(slice: &Slice, port: &ServicePort) -> impl Iterator<Item = u16> {
    let ports = slice.ports.iter().flatten();
    let named = ports.filter(|target| target.name.as_deref().unwrap_or_default() == port.name);
    named.filter(|target| target.protocol == port.protocol).filter_map(|target| target.port)
}

/// kube-proxy, like the API, takes the addresses of an endpoint as interchangeable.
fn first_address(endpoint: &Endpoint) -> Option<IpAddr> {
    endpoint.addresses.first()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(spec: &Value) -> Value {
        json!({"metadata": {"namespace": "shop", "name": "a"}, "spec": spec})
    }

    fn slice(endpoints: &Value) -> Value {
        let labels = json!({"kubernetes.io/service-name": "a"});
        let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
        json!({"metadata": {"namespace": "shop", "name": "a-x", "labels": labels}, "ports": ports, "endpoints": endpoints})
    }

    fn backends_of(endpoints: &Value) -> Vec<SocketAddr> {
        let spec = json!({"clusterIP": "10.96.0.10", "ports": [{"name": "http", "port": 80}]});
        service_rules(&[service(&spec)], &[slice(endpoints)], "node-a").remove(0).backends
    }

    #[test]
    fn ready_endpoints_come_before_terminating_ones() {
        let draining = json!({"ready": false, "serving": true, "terminating": true});
        let both =
            json!([{"addresses": ["10.244.1.2"]}, {"addresses": ["10.244.1.3"], "conditions": draining}]);
        assert_eq!(backends_of(&both), ["10.244.1.2:8080".parse().unwrap()]);
        let alone = json!([{"addresses": ["10.244.1.3"], "conditions": draining}]);
        assert_eq!(backends_of(&alone), ["10.244.1.3:8080".parse().unwrap()]);
    }

    #[test]
    fn an_endpoint_that_does_not_serve_gets_nothing() {
        let failed = json!({"ready": false, "serving": false, "terminating": true});
        let unready = json!({"ready": false, "serving": false, "terminating": false});
        let endpoints = json!([
            {"addresses": ["10.244.1.2"], "conditions": failed}, {"addresses": ["10.244.1.3"], "conditions": unready},
            {"addresses": ["banana"]}, {"addresses": []},
        ]);
        assert_eq!(backends_of(&endpoints), []);
        assert_eq!(backends_of(&Value::Null), []);
    }

    #[test]
    fn a_service_is_reached_by_every_address_it_has() {
        let ports = json!([{"name": "http", "port": 80, "nodePort": 30080}]);
        let mut object = service(
            &json!({"clusterIPs": ["10.96.0.10"], "externalIPs": ["192.0.2.7", "x"], "ports": ports}),
        );
        object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}, {"hostname": "lb"}]}});
        let expected = [
            Frontend::ClusterIp("10.96.0.10:80".parse().unwrap()),
            Frontend::External("192.0.2.7:80".parse().unwrap()),
            Frontend::External("192.0.2.8:80".parse().unwrap()),
            Frontend::NodePort { family: "10.96.0.10".parse().unwrap(), port: 30080 },
        ];
        assert_eq!(service_rules(&[object], &[], "node-a").remove(0).frontends, expected);
    }

    #[test]
    fn a_local_policy_keeps_the_endpoints_of_the_proxys_own_node_and_affinity_is_read() {
        let spec = json!({"clusterIP": "10.96.0.10", "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local",
                          "ports": [{"name": "http", "port": 80}]});
        let endpoints = json!([{"addresses": ["10.244.1.2"], "nodeName": "node-a"}, {"addresses": ["10.244.2.2"], "nodeName": "node-b"}]);
        let rule = service_rules(&[service(&spec)], &[slice(&endpoints)], "node-a").remove(0);
        assert!(rule.affinity);
        assert_eq!((rule.backends.len(), rule.local), (2, Some(vec!["10.244.1.2:8080".parse().unwrap()])));
    }

    #[test]
    fn headless_and_external_name_services_have_no_rules() {
        let ports = json!([{"port": 80}]);
        let headless = service(&json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": ports}));
        let name = service(&json!({"type": "ExternalName", "externalName": "example.org", "ports": ports}));
        assert_eq!(service_rules(&[headless, name], &[], "node-a"), []);
    }
}
