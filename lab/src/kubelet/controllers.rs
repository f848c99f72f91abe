//! The controllers that a pod of a client needs: as much of each as the lab has use for.

use crate::api::{Kind, ObjectRef, Store};
use crate::object::{each, has_selector, ip, name, selects};
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The label of the slices of [`list_endpoints`].
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The scheduler: binds a pod to the node that its affinity requires by name.
pub(super) fn bind(store: &Store, pod: &Value) -> Result<()> {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = &required["nodeSelectorTerms"][0]["matchFields"][0];
    let wanted = &field["values"][0];
    if field["key"] != "metadata.name" || store.get(&node(wanted)).is_none() {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector"});
        let status = json!({"status": {"phase": "Pending", "conditions": [condition]}});
        store.patch(&ObjectRef::of(pod)?, &status)?;
        return Ok(());
    }
    store.patch(&ObjectRef::of(pod)?, &json!({"spec": {"nodeName": wanted}}))?;
    Ok(())
}

fn node(name: &Value) -> ObjectRef {
    ObjectRef::new(Kind::Node, "", name.as_str().unwrap_or_default())
}

/// The Job controller: each Job gets its first pod.
pub(super) fn run_jobs(store: &Store) -> Result<()> {
    for job in store.list(Kind::Job) {
        if job["status"]["active"].is_number() {
            continue;
        }
        let meta = &job["metadata"];
        let job_name = meta["name"].as_str().context("a Job without a name")?;
        let template = &job["spec"]["template"];
        let mut labels = template["metadata"]["labels"].clone();
        labels["batch.kubernetes.io/job-name"] = job_name.into();
        labels["batch.kubernetes.io/controller-uid"] = meta["uid"].clone();
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job_name, "uid": meta["uid"],
            "controller": true, "blockOwnerDeletion": true});
        store.apply(json!({
            "apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
            "metadata": {"name": format!("{job_name}-x7k2p"), "namespace": meta["namespace"], "labels": labels,
                "generateName": format!("{job_name}-"), "annotations": template["metadata"]["annotations"],
                "ownerReferences": [owner]},
            "status": {"phase": "Pending"},
        }))?;
        store.patch(&ObjectRef::of(&job)?, &json!({"status": {"active": 1}}))?;
    }
    Ok(())
}

/// The `EndpointSlice` controller, for the Services whose slices are not a story's: those that have
/// no slice yet, and those with slices of its own.
///
/// A pod stays in the slices until it is deleted. The controller compares readiness and IPs of a
/// pod, and not its phase (lab/traces/d-job-ip-reuse).
pub(super) fn list_endpoints(store: &Store) -> Result<()> {
    let pods = store.list(Kind::Pod);
    for service in store.list(Kind::Service) {
        let namespace = service["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default();
        if !has_selector(&service) || !is_made_by_a_client(namespace) {
            continue;
        }
        for family in each(&service["spec"]["ipFamilies"]) {
            let is_ipv6 = family == "IPv6";
            let mut endpoints = Vec::new();
            for pod in pods.iter().filter(|pod| selects(&service, pod)) {
                let mut ips = each(&pod["status"]["podIPs"]).filter_map(|entry| ip(&entry["ip"]));
                if let Some(ip) = ips.find(|ip| ip.is_ipv6() == is_ipv6) {
                    endpoints.push(endpoint(&service, pod, &json!(ip)));
                }
            }
            let slice = slice(&service, is_ipv6, &endpoints);
            store
                .apply(slice)
                .with_context(|| format!("slice of {}", name(&service)))?;
        }
    }
    Ok(())
}

fn endpoint(service: &Value, pod: &Value, ip: &Value) -> Value {
    let mut conditions = each(&pod["status"]["conditions"]);
    let is_ready =
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let terminating = pod["metadata"]["deletionTimestamp"].is_string();
    let publishes = service["spec"]["publishNotReadyAddresses"] == true;
    let meta = &pod["metadata"];
    json!({
        "addresses": [ip], "nodeName": pod["spec"]["nodeName"],
        "conditions": {"ready": publishes || (is_ready && !terminating), "serving": is_ready, "terminating": terminating},
        "targetRef": {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
    })
}

fn slice(service: &Value, is_ipv6: bool, endpoints: &[Value]) -> Value {
    let meta = &service["metadata"];
    let service_name = meta["name"].as_str().unwrap_or_default();
    let family = if is_ipv6 { "IPv6" } else { "IPv4" };
    let mut ports = Vec::new();
    for port in each(&service["spec"]["ports"]) {
        ports.push(
            json!({"name": port["name"], "protocol": port["protocol"], "port": port["port"]}),
        );
    }
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {"namespace": meta["namespace"], "name": format!("{service_name}-lab{}", u8::from(is_ipv6)),
            "generateName": format!("{service_name}-"),
            "labels": {"kubernetes.io/service-name": service_name, "endpointslice.kubernetes.io/managed-by": MANAGER}},
        "endpoints": endpoints, "ports": ports,
    })
}

/// The namespace controller: removes what is in a namespace that is gone. Processes of its pods end
/// after that.
pub(super) fn empty_namespaces(store: &Store) -> Result<()> {
    let kinds = Kind::ALL.iter().filter(|kind| kind.namespaced());
    for object in kinds.flat_map(|kind| store.list(*kind)) {
        let id = ObjectRef::of(&object)?;
        let namespace = ObjectRef::new(Kind::Namespace, "", &id.namespace);
        if is_made_by_a_client(&id.namespace) && store.get(&namespace).is_none() {
            store.remove(&id)?;
        }
    }
    Ok(())
}

/// Those of stories may lack their object.
fn is_made_by_a_client(namespace: &str) -> bool {
    namespace.starts_with("epguard")
}
