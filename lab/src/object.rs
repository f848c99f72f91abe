//! Fields of single raw objects. A field of the wrong type counts as absent.

use crate::proxy::Protocol;
use epguard_core::facts::Cidr;
use serde_json::Value;
use std::net::IpAddr;

/// `namespace/name`, or the bare name of a cluster-scoped object.
pub(crate) fn name(object: &Value) -> String {
    let meta = &object["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    match meta["namespace"].as_str() {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.into(),
    }
}

/// The object's UID; empty is none.
pub(crate) fn uid(object: &Value) -> Option<&str> {
    non_empty(&object["metadata"]["uid"])
}

/// The object after a JSON merge patch (RFC 7386).
pub(crate) fn merged(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    merge(&mut object, patch);
    object
}

/// Applies a JSON merge patch.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    let mut merged = target
        .as_object_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    for (key, value) in fields {
        if value.is_null() {
            merged.remove(key);
        } else {
            merge(merged.entry(key).or_insert(Value::Null), value);
        }
    }
    *target = merged.into();
}

/// An annotation of the object.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// True with the annotation `epguard.io/mode: off`.
pub(crate) fn opted_out(object: &Value) -> bool {
    annotation(object, "epguard.io/mode") == Some("off")
}

/// A non-empty string.
pub(crate) fn non_empty(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// Elements of an array; none for any other value.
pub(crate) fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// An IP written as a string.
pub(crate) fn ip(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

/// Whether a Service has a selector at all.
pub(crate) fn has_selector(service: &Value) -> bool {
    service["spec"]["selector"]
        .as_object()
        .is_some_and(|map| !map.is_empty())
}

/// Whether the Service's selector picks this pod.
pub(crate) fn selects(service: &Value, pod: &Value) -> bool {
    let Some(selector) = service["spec"]["selector"].as_object() else {
        return false;
    };
    !selector.is_empty()
        && service["metadata"]["namespace"] == pod["metadata"]["namespace"]
        && selector
            .iter()
            .all(|(key, value)| pod["metadata"]["labels"].get(key) == Some(value))
}

/// The namespaces of the pods that a slice names.
pub(crate) fn named_namespaces(slice: &Value) -> impl Iterator<Item = &Value> {
    let targets = each(&slice["endpoints"]).map(|endpoint| &endpoint["targetRef"]);
    let pods = targets.filter(|target| target["kind"] == "Pod");
    pods.map(|pod| {
        if non_empty(&pod["namespace"]).is_some() {
            &pod["namespace"]
        } else {
            &slice["metadata"]["namespace"]
        }
    })
}

/// The `ClusterIPs` of a Service; none where it is headless or an `ExternalName`.
pub(crate) fn cluster_ips(service: &Value) -> Vec<IpAddr> {
    let spec = &service["spec"];
    let mut ips: Vec<IpAddr> = std::iter::once(&spec["clusterIP"])
        .chain(each(&spec["clusterIPs"]))
        .filter_map(ip)
        .collect();
    // The first one is in both fields.
    ips.dedup();
    ips
}

/// One address of a slice with the UID of the pod that it names.
pub(crate) struct Endpoint<'a> {
    pub(crate) ip: IpAddr,
    pub(crate) uid: Option<&'a str>,
}

/// The Service (`namespace/name`) that a slice belongs to.
pub(crate) fn slice_service(slice: &Value) -> Option<String> {
    let meta = &slice["metadata"];
    let service = non_empty(&meta["labels"]["kubernetes.io/service-name"])?;
    Some(format!("{}/{service}", meta["namespace"].as_str()?))
}

/// Whether the EndpointSlice controller writes the slice.
pub(crate) fn is_controllers(slice: &Value) -> bool {
    let labels = &slice["metadata"]["labels"];
    labels["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
}

/// The addresses of a slice that are IPs.
pub(crate) fn endpoints(slice: &Value) -> impl Iterator<Item = Endpoint<'_>> {
    let mut found = Vec::new();
    if slice["addressType"] == "FQDN" {
        return found.into_iter();
    }
    for endpoint in each(&slice["endpoints"]) {
        let target = &endpoint["targetRef"];
        let uid = match target["kind"].as_str() {
            Some("Pod") => non_empty(&target["uid"]),
            _ => None,
        };
        for ip in each(&endpoint["addresses"]).filter_map(ip) {
            found.push(Endpoint { ip, uid });
        }
    }
    found.into_iter()
}

/// A port of a Service or slice. They belong together if they have the same name and protocol.
#[derive(Clone, Copy)]
pub(crate) struct Port<'a> {
    pub(crate) name: &'a str,
    pub(crate) protocol: Protocol,
    pub(crate) number: u16,
    /// The `NodePort` of a Service.
    pub(crate) on_nodes: Option<u16>,
}

/// The ports of a Service's spec or of a slice that have a number.
pub(crate) fn ports(of: &Value) -> impl Iterator<Item = Port<'_>> {
    each(&of["ports"]).filter_map(|port| {
        let name = port["name"].as_str().unwrap_or_default();
        let protocol = Protocol::parse(port["protocol"].as_str())?;
        Some(Port {
            name,
            protocol,
            number: port_number(&port["port"])?,
            on_nodes: port_number(&port["nodePort"]),
        })
    })
}

fn port_number(value: &Value) -> Option<u16> {
    let number = u16::try_from(value.as_u64()?).ok()?;
    (number != 0).then_some(number)
}

/// Addresses of a node.
pub(crate) fn node_addresses(node: &Value) -> impl Iterator<Item = IpAddr> {
    each(&node["status"]["addresses"]).filter_map(|address| ip(&address["address"]))
}

/// The ranges of a node.
pub(crate) fn pod_ranges(node: &Value) -> impl Iterator<Item = Cidr> {
    each(&node["spec"]["podCIDRs"]).filter_map(|range| Cidr::parse(range.as_str()?))
}

/// A node without a kubelet of its own.
pub(crate) fn is_virtual_kubelet(node: &Value) -> bool {
    node["metadata"]["labels"]["type"] == "virtual-kubelet"
        || each(&node["spec"]["taints"]).any(|taint| {
            let key = taint["key"].as_str();
            key.is_some_and(|key| key.starts_with("virtual-kubelet.io/"))
        })
}
