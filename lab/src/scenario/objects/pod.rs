//! A pod, with the status that its kubelet would report (recorded in `lab/traces`).

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::without_nulls;
use crate::object::merged;
use crate::scenario::format::{Kubelet, Pod, Service};

/// A pod's namespace, name and UID, and the addresses of its sandboxes.
#[derive(Clone, Debug)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The address of its first sandbox.
    pub ip: IpAddr,
    /// The address of its next sandbox.
    pub next_ip: Option<IpAddr>,
    /// Its address of the other family.
    pub other_family: Option<IpAddr>,
    /// The address of its second interface.
    pub net1: Option<IpAddr>,
}

impl PodName {
    /// The address that slices of a Service list, where the API shows a `published` one.
    pub fn address(&self, service: &Service, published: Option<IpAddr>) -> Result<IpAddr> {
        if service.net1 {
            self.net1.with_context(|| format!("{} has no `net1`", self.name))
        } else {
            Ok(published.unwrap_or(self.ip))
        }
    }
}

/// The fields of a pod that change during a story.
#[derive(Clone, Debug)]
pub struct PodObject {
    pub name: PodName,
    /// As the story has it.
    pub declared: Pod,
    /// The node's address.
    pub host_ip: IpAddr,
    /// `metadata.creationTimestamp`.
    pub created: String,
    /// `status.phase`.
    pub phase: &'static str,
    /// `PodGC` and not the kubelet has written the phase.
    pub phase_by_podgc: bool,
    /// `status.podIP`.
    pub ip: Option<IpAddr>,
    /// Condition `Ready`, and the time of its last change.
    pub ready: (bool, String),
    /// Condition `PodReadyToStartContainers`, and the time of its last change; a kubelet before 1.29 has none.
    pub sandbox: Option<(bool, String)>,
    /// The state of the only container.
    pub container: Value,
}

impl PodObject {
    /// The object as the API shows it after a change `now`, RFC 3339.
    pub fn render(&self, now: &str) -> Value {
        let Self { name, declared, .. } = self;
        let networks = name.net1.filter(|_| self.container["waiting"].is_null());
        let networks =
            networks.map(|ip| json!([{"name": "lab/net1", "interface": "net1", "ips": [ip], "dns": {}}]));
        let of_mirror = |value: &str| declared.mirror.then(|| value.to_owned());
        let own = json!({
            "k8s.v1.cni.cncf.io/network-status": networks.map(|networks| networks.to_string()),
            "kubernetes.io/config.source": of_mirror("file"),
            "kubernetes.io/config.hash": of_mirror("9a7c4e21b0d3"),
            "kubernetes.io/config.mirror": of_mirror("9a7c4e21b0d3"),
        });
        let annotations = merged(&json!(declared.annotations), &own);
        let entry = |ip: IpAddr| json!({"ip": ip});
        let ips: Option<Value> =
            self.ip.map(|ip| [ip].into_iter().chain(name.other_family).map(entry).collect());
        without_nulls(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": name.namespace, "name": name.name, "uid": name.uid, "generation": 1,
                "creationTimestamp": self.created, "labels": declared.labels, "annotations": annotations,
                "managedFields": self.managed_fields(now),
            },
            "spec": {
                "nodeName": declared.node, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "c", "image": "registry.test/server:1"}],
            },
            "status": {
                "phase": self.phase, "observedGeneration": 1, "qosClass": "BestEffort", "startTime": self.created,
                "hostIP": self.host_ip, "hostIPs": [entry(self.host_ip)], "podIP": self.ip, "podIPs": ips,
                "conditions": self.conditions(), "containerStatuses": [self.container_status()],
            },
        }))
    }

    /// The container starts, unless it runs.
    pub fn start(&mut self, now: &str) {
        if self.container["running"].is_null() {
            self.container = json!({"running": {"startedAt": now}});
        }
    }

    /// The container ends; Ready follows.
    pub fn exit(&mut self, now: &str, code: i32) {
        if let Some(started) = self.container["running"]["startedAt"].as_str() {
            let reason = if code == 0 { "Completed" } else { "Error" };
            self.container = json!({"terminated": {
                "exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now, "containerID": self.container_id(),
            }});
        }
        if self.ready.0 {
            self.ready = (false, now.into());
        }
    }

    fn container_id(&self) -> String {
        format!("containerd://{}", self.name.uid.replace('-', "").repeat(2))
    }

    /// Changes the condition `PodReadyToStartContainers`, if the kubelet reports one.
    pub fn report_sandbox(&mut self, is_up: bool, now: &str) {
        if let Some(sandbox) = &mut self.sandbox {
            *sandbox = (is_up, now.into());
        }
    }

    /// The writers of the top-level fields of spec and status: of the status through its subresource.
    fn managed_fields(&self, time: &str) -> Value {
        // With k3s kubelet and controllers are one manager.
        let is_k3s = self.declared.kubelet == Kubelet::K3s;
        let by_podgc = self.phase_by_podgc && !is_k3s;
        let mut of_kubelet = "conditions containerStatuses hostIP hostIPs podIP podIPs startTime".to_owned();
        if !by_podgc {
            of_kubelet += " phase";
        }
        let writers = [
            ("kubectl-create", "spec", "containers restartPolicy", true),
            ("kube-controller-manager", "status", "conditions phase", by_podgc),
            (if is_k3s { "k3s" } else { "kubelet" }, "status", &of_kubelet, true),
        ];
        let written = writers.into_iter().filter(|(.., has_written)| *has_written);
        let entries = written.map(|(manager, part, fields, _)| {
            let owned: Map<String, Value> =
                fields.split(' ').map(|field| (format!("f:{field}"), json!({}))).collect();
            without_nulls(&json!({
                "manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
                "fieldsType": "FieldsV1", "fieldsV1": {format!("f:{part}"): owned},
                "subresource": (part == "status").then_some(part),
            }))
        });
        entries.collect()
    }

    fn conditions(&self) -> Value {
        let created = &(true, self.created.clone());
        let ended = match self.phase {
            _ if self.phase_by_podgc => None,
            "Succeeded" => Some("PodCompleted"),
            "Failed" => Some("PodFailed"),
            _ => None,
        };
        let disrupted = self.phase_by_podgc.then_some(created);
        let conditions = [
            ("Initialized", Some(created), None),
            ("Ready", Some(&self.ready), ended),
            ("ContainersReady", Some(&self.ready), ended),
            ("PodScheduled", Some(created), None),
            ("PodReadyToStartContainers", self.sandbox.as_ref(), None),
            ("DisruptionTarget", disrupted, Some("DeletionByPodGC")),
        ];
        let reported = conditions.into_iter().filter_map(|(kind, state, reason)| {
            let (holds, since) = state?;
            let status = if *holds { "True" } else { "False" };
            Some(without_nulls(&json!({
                "type": kind, "status": status, "reason": reason, "lastTransitionTime": since, "observedGeneration": 1,
            })))
        });
        reported.collect()
    }

    fn container_status(&self) -> Value {
        let running = self.container["running"].is_object();
        json!({
            "name": "c", "image": "registry.test/server:1", "imageID": "sha256:0", "containerID": self.container_id(),
            "ready": running && self.ready.0, "started": running, "restartCount": 0, "lastState": {},
            "state": self.container,
        })
    }
}
