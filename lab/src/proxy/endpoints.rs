//! From Service and `EndpointSlice` objects to rules, the way kube-proxy does it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::{Frontend, ServiceRule};
use crate::object::{Port, cluster_ips, each, ip, name, ports, slice_service};

/// The rules that kube-proxy would program for these Services and `EndpointSlices` (JSON objects of
/// the API). Per address family they have every ready endpoint, else every serving and terminating
/// one (KEP-1669). Headless and `ExternalName` Services have none. Like kube-proxy it takes
/// `publishNotReadyAddresses` from the slices, whose endpoints are then all `ready`. Fields that
/// cannot be parsed are left out. `node` is the proxy's own.
pub fn service_rules(services: &[Value], slices: &[Value], node: &str) -> Vec<ServiceRule> {
    services
        .iter()
        .flat_map(|service| rules(service, slices, node))
        .collect()
}

fn rules(service: &Value, slices: &[Value], node: &str) -> Vec<ServiceRule> {
    let spec = &service["spec"];
    let name = name(service);
    let vips = cluster_ips(service);
    if spec["type"] == "ExternalName" || vips.is_empty() {
        return Vec::new();
    }
    let own: Vec<&Value> = slices
        .iter()
        .filter(|slice| slice_service(slice).as_ref() == Some(&name))
        .collect();
    let is_local = spec["externalTrafficPolicy"] == "Local";
    let mut rules = Vec::new();
    for port in ports(spec) {
        rules.push(ServiceRule {
            name: format!("{name}:{}", port.name),
            protocol: port.protocol,
            frontends: frontends(service, &vips, port),
            backends: backends_of_both_families(&own, port, None),
            affinity: spec["sessionAffinity"] == "ClientIP",
            local: is_local.then(|| backends_of_both_families(&own, port, Some(node))),
        });
    }
    rules
}

fn frontends(service: &Value, vips: &[IpAddr], port: Port<'_>) -> Vec<Frontend> {
    let mut frontends = Vec::new();
    for vip in vips {
        frontends.push(Frontend::ClusterIp(SocketAddr::new(*vip, port.number)));
    }
    let ingress = each(&service["status"]["loadBalancer"]["ingress"]).map(|entry| &entry["ip"]);
    let outside = each(&service["spec"]["externalIPs"]).chain(ingress);
    for ip in outside.filter_map(ip) {
        frontends.push(Frontend::External(SocketAddr::new(ip, port.number)));
    }
    if let Some(number) = port.on_nodes {
        for vip in vips {
            frontends.push(Frontend::NodePort {
                family: *vip,
                port: number,
            });
        }
    }
    frontends
}

fn backends_of_both_families(
    slices: &[&Value],
    port: Port<'_>,
    node: Option<&str>,
) -> Vec<SocketAddr> {
    let mut both = Vec::new();
    for ipv6 in [false, true] {
        both.extend(backends(slices, port, node, ipv6));
    }
    both
}

/// The backends on one node, or all.
fn backends(
    slices: &[&Value],
    of: Port<'_>,
    node: Option<&str>,
    ipv6: bool,
) -> BTreeSet<SocketAddr> {
    let mut ready = BTreeSet::new();
    let mut fallback = BTreeSet::new();
    for slice in slices {
        for port in ports(slice).filter(|port| (port.name, port.protocol) == (of.name, of.protocol))
        {
            for endpoint in each(&slice["endpoints"]) {
                // kube-proxy, like the API, takes the addresses of an endpoint as interchangeable.
                let Some(ip) = ip(&endpoint["addresses"][0]).filter(|ip| ip.is_ipv6() == ipv6)
                else {
                    continue;
                };
                if node.is_some() && endpoint["nodeName"].as_str() != node {
                    continue;
                }
                // A missing `ready` means true. Where a Service has no ready endpoint, those that
                // still serve while they terminate take over (KEP-1669).
                let conditions = &endpoint["conditions"];
                let is_ready = conditions["ready"].as_bool().unwrap_or(true);
                let is_serving = conditions["serving"].as_bool().unwrap_or(is_ready);
                if is_ready {
                    ready.insert(SocketAddr::new(ip, port.number));
                } else if is_serving && conditions["terminating"] == true {
                    fallback.insert(SocketAddr::new(ip, port.number));
                }
            }
        }
    }
    if ready.is_empty() { fallback } else { ready }
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
        service_rules(&[service(&spec)], &[slice(endpoints)], "node-a")
            .remove(0)
            .backends
    }

    #[test]
    fn ready_endpoints_come_before_terminating_ones_and_what_does_not_serve_gets_nothing() {
        let with = |ip: &str, [ready, serving, terminating]: [bool; 3]| {
            let conditions =
                json!({"ready": ready, "serving": serving, "terminating": terminating});
            json!({"addresses": [ip], "conditions": conditions})
        };
        let ready = json!({"addresses": ["10.244.1.2"]});
        let draining = with("10.244.1.3", [false, true, true]);
        let failed = with("10.244.1.4", [false, false, true]);
        let unready = with("10.244.1.5", [false; 3]);
        for (endpoints, expected) in [
            (json!([ready, draining]), &["10.244.1.2:8080"][..]),
            (json!([draining]), &["10.244.1.3:8080"]),
            (
                json!([failed, unready, {"addresses": ["banana"]}, {"addresses": []}]),
                &[],
            ),
            (Value::Null, &[]),
        ] {
            let expected: Vec<SocketAddr> = expected.iter().map(|to| to.parse().unwrap()).collect();
            assert_eq!(backends_of(&endpoints), expected, "{endpoints}");
        }
    }

    #[test]
    fn a_service_is_reached_by_every_address_it_has() {
        let ports = json!([{"name": "http", "port": 80, "nodePort": 30080}]);
        let mut object = service(
            &json!({"clusterIPs": ["10.96.0.10"], "externalIPs": ["192.0.2.7", "x"], "ports": ports}),
        );
        object["status"] =
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}, {"hostname": "lb"}]}});
        let expected = [
            Frontend::ClusterIp("10.96.0.10:80".parse().unwrap()),
            Frontend::External("192.0.2.7:80".parse().unwrap()),
            Frontend::External("192.0.2.8:80".parse().unwrap()),
            Frontend::NodePort {
                family: "10.96.0.10".parse().unwrap(),
                port: 30080,
            },
        ];
        assert_eq!(
            service_rules(&[object], &[], "node-a").remove(0).frontends,
            expected
        );
    }

    #[test]
    fn a_local_policy_keeps_the_endpoints_of_the_proxys_own_node_and_affinity_is_read() {
        let spec = json!({"clusterIP": "10.96.0.10", "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local",
                          "ports": [{"name": "http", "port": 80}]});
        let endpoints = json!([{"addresses": ["10.244.1.2"], "nodeName": "node-a"}, {"addresses": ["10.244.2.2"], "nodeName": "node-b"}]);
        let rule = service_rules(&[service(&spec)], &[slice(&endpoints)], "node-a").remove(0);
        assert!(rule.affinity);
        assert_eq!(
            (rule.backends.len(), rule.local),
            (2, Some(vec!["10.244.1.2:8080".parse().unwrap()]))
        );
    }

    #[test]
    fn headless_and_external_name_services_have_no_rules() {
        let ports = json!([{"port": 80}]);
        let headless =
            service(&json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": ports}));
        let name = service(
            &json!({"type": "ExternalName", "externalName": "example.org", "ports": ports}),
        );
        assert_eq!(service_rules(&[headless, name], &[], "node-a"), []);
    }
}
