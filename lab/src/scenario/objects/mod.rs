//! Objects of a story in the API, like those of a Kubernetes 1.36 cluster: those that exist from
//! the start, slices, and what steps apply, patch and delete.

mod pod;

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::format::{Condition, Patch, Scenario, Service, Wire};
use super::names::split;
use crate::api::{Kind, ObjectRef};
use crate::net::Node;
use crate::object::merged;
use crate::proxy::Protocol;
pub use pod::{PodName, PodObject};

impl Cluster {
    /// Sets the endpoints of a Service's slice, or slices: pods, with the addresses that the API
    /// shows.
    pub fn set_slice(
        &mut self,
        service: &str,
        conditions: &BTreeMap<String, Condition>,
    ) -> Result<()> {
        let declared = self
            .services
            .get(service)
            .with_context(|| format!("there is no Service {service}"))?;
        let mut primary = Vec::new();
        let mut other = Vec::new();
        for (alias, condition) in conditions {
            let pod = self.names.pod(alias)?;
            let published = self.objects.get(alias).and_then(|object| object.ip);
            let node = &self.cast[alias].node;
            let ip = pod.address(declared, published)?;
            primary.push(endpoint(pod, node, ip, *condition));
            if let Some(ip) = pod.other_family {
                other.push(endpoint(pod, node, ip, *condition));
            }
        }
        let is_ipv4 = self.names.is_ipv4();
        let mut slices = vec![slice(service, "lab", is_ipv4, declared, &primary)];
        if declared.dual_stack {
            slices.push(slice(service, "lab-2", !is_ipv4, declared, &other));
        }
        for slice in slices {
            self.store
                .apply(slice)
                .with_context(|| format!("slice of {service}"))?;
        }
        Ok(())
    }

    /// Creates objects, or merges into them.
    pub fn apply(&self, objects: &[Value]) -> Result<()> {
        objects.iter().try_for_each(|object| {
            let object = self.names.expand(object)?;
            if let Some(namespace) = object["metadata"]["namespace"].as_str() {
                self.store.ensure_namespace(namespace)?;
            }
            self.store.apply(object)?;
            Ok(())
        })
    }

    /// Merges a patch into an object.
    pub fn patch(&self, patch: &Patch) -> Result<()> {
        let id = object_ref(&self.names.expand_text(&patch.of)?)?;
        self.store.patch(&id, &self.names.expand(&patch.merge)?)?;
        Ok(())
    }

    /// Deletes each `Kind namespace/name` at once.
    pub fn delete(&self, objects: &[String]) -> Result<()> {
        objects.iter().try_for_each(|what| {
            let id = object_ref(&self.names.expand_text(what)?)?;
            self.store
                .delete(&id, Some(0))
                .with_context(|| what.clone())?;
            Ok(())
        })
    }

    /// Creates the Namespaces, nodes and Services.
    pub(super) fn create_objects(&self, scenario: &Scenario) -> Result<()> {
        for (name, namespace) in &scenario.namespaces {
            self.store.ensure_namespace(name)?;
            let annotations = json!({"metadata": {"annotations": namespace.annotations}});
            let id = ObjectRef::new(Kind::Namespace, "", name);
            self.store.patch(&id, &annotations)?;
        }
        let pods = self.cast.values().map(|pod| &pod.is);
        for full in pods.chain(self.services.keys()) {
            self.store.ensure_namespace(&split(full).0)?;
        }
        for (name, number) in [("node-a", 1), ("node-b", 2)] {
            self.store.apply(node(self.topology.node(name)?, number))?;
        }
        for (number, (name, declared)) in (1..).zip(&self.services) {
            self.store
                .apply(service(name, number, declared, self.names.service(name)?))?;
        }
        Ok(())
    }
}

/// Reads `Kind namespace/name`, or `Kind name` for kinds without namespace.
fn object_ref(what: &str) -> Result<ObjectRef> {
    let (kind, name) = what
        .split_once(' ')
        .with_context(|| format!("{what:?} is not `Kind namespace/name`"))?;
    let kind: Kind = kind.parse()?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Ok(ObjectRef::new(kind, namespace, name))
}

/// A readable UID: the `number`th of its `kind`.
pub fn uid(kind: u16, number: usize) -> String {
    format!("{number:08x}-{kind:04x}-4000-8000-{number:012x}")
}

/// A ready node, the `number`th.
fn node(node: &Node, number: usize) -> Value {
    let name = &node.name;
    let uid = uid(0x0de, number);
    let cidrs = node
        .pod_cidrs()
        .map(|(base, length)| format!("{base}/{length}"));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": uid, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": node.ipv4}, {"type": "InternalIP", "address": node.ipv6},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"bootID": uid, "kubeletVersion": "v1.36.2", "operatingSystem": "linux"},
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

/// The `number`th Service, `namespace/name`.
fn service(full_name: &str, number: usize, service: &Service, frontends: Frontends) -> Value {
    let (namespace, name) = split(full_name);
    let uid = uid(0x5ec, number);
    let ports = (0..).zip(&service.protocols).map(|(index, wire)| {
        without_nulls(&json!({
            "name": wire.to_string(), "protocol": Protocol::from(*wire).as_str(), "port": service.port,
            "targetPort": service.target_port, "nodePort": frontends.node_port.map(|first| first + index),
        }))
    });
    let vips: Vec<IpAddr> = [frontends.vip]
        .into_iter()
        .chain(frontends.other_family)
        .collect();
    let families: Vec<&str> = vips.iter().map(|vip| family(vip.is_ipv4())).collect();
    let has_node_ports = frontends.node_port.is_some();
    without_nulls(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "annotations": service.annotations},
        "spec": {
            "type": if has_node_ports { "NodePort" } else { "ClusterIP" },
            "clusterIP": frontends.vip, "clusterIPs": vips, "ports": ports.collect::<Value>(),
            "ipFamilies": families, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ipFamilyPolicy": if vips.len() == 1 { "SingleStack" } else { "RequireDualStack" },
            "externalTrafficPolicy": has_node_ports.then_some("Cluster"), "selector": service.selector,
            "publishNotReadyAddresses": service.publish_not_ready_addresses.then_some(true),
        },
        "status": {"loadBalancer": {}},
    }))
}

/// The endpoint of a pod at an address.
fn endpoint(pod: &PodName, node: &str, ip: IpAddr, condition: Condition) -> Value {
    let [ready, serving, terminating] = condition.flags();
    let PodName {
        namespace,
        name,
        uid,
        ..
    } = pod;
    json!({
        "addresses": [ip], "nodeName": node,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid},
    })
}

/// The slice `id` of the Service `namespace/name`, with all its endpoints of a family.
fn slice(full_name: &str, id: &str, ipv4: bool, service: &Service, endpoints: &[Value]) -> Value {
    let (namespace, name) = split(full_name);
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": format!("{name}-{id}"), "generateName": format!("{name}-"),
            "labels": {
                "kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": family(ipv4),
        "endpoints": endpoints, "ports": service.protocols.iter().map(|wire: &Wire| {
        let protocol = Protocol::from(*wire).as_str();
        json!({"name": wire.to_string(), "protocol": protocol, "port": service.target_port})
    }).collect::<Value>(),
    })
}

fn family(ipv4: bool) -> &'static str {
    if ipv4 { "IPv4" } else { "IPv6" }
}

/// The object without its null fields.
fn without_nulls(object: &Value) -> Value {
    merged(&Value::Null, object)
}
