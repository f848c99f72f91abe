//! A pod, with the status that its kubelet would report (recorded in `lab/traces`).

use std::net::IpAddr;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::scenario::format::{Kubelet, Pod, Service};

/// A clock that moves only on [`Clock::tick`]: changes of a status are a second apart, however fast the story runs.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Timestamp);

impl Clock {
    /// A clock that shows the current time.
    pub fn now() -> Self {
        Self(Timestamp::now())
    }

    /// A second passes.
    pub fn tick(&mut self) {
        self.0 = self.0.saturating_add(SignedDuration::from_secs(1)).unwrap_or(self.0);
    }

    /// RFC 3339 in whole seconds.
    pub fn text(&self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

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
    pub phase: Phase,
    /// `PodGC` and not the kubelet has written the phase.
    pub phase_by_podgc: bool,
    /// `status.podIP`.
    pub ip: Option<IpAddr>,
    /// Condition `Ready`, and the time of its last change.
    pub ready: (bool, String),
    /// Condition `PodReadyToStartContainers`, and the time of its last change; a kubelet before 1.29 has none.
    pub sandbox: Option<(bool, String)>,
    /// The only container.
    pub container: Container,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// The state of a pod's container.
#[derive(Clone, Debug)]
pub enum Container {
    /// Not started.
    Waiting,
    /// Started at this time.
    Running(String),
    /// Started and ended at these times, with this exit code.
    Terminated(String, String, i32),
}

impl PodObject {
    /// The object as the API shows it now.
    pub fn render(&self, clock: &Clock) -> Value {
        let Self { name, declared, .. } = self;
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": name.namespace, "name": name.name, "uid": name.uid, "generation": 1,
                "creationTimestamp": self.created, "labels": declared.labels, "annotations": declared.annotations,
                "managedFields": self.managed_fields(&clock.text()),
            },
            "spec": {
                "nodeName": declared.node, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "serviceAccountName": "default",
                "enableServiceLinks": true, "securityContext": {},
                "containers": [{
                    "name": "c", "image": "registry.test/server:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
            },
            "status": self.status(),
        });
        let meta = &mut pod["metadata"];
        if let (Some(ip), false) = (name.net1, matches!(self.container, Container::Waiting)) {
            let networks = json!([{"name": "lab/net1", "interface": "net1", "ips": [ip], "dns": {}}]);
            meta["annotations"]["k8s.v1.cni.cncf.io/network-status"] = networks.to_string().into();
        }
        if declared.mirror {
            meta["annotations"]["kubernetes.io/config.source"] = "file".into();
            for key in ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"] {
                meta["annotations"][key] = "9a7c4e21b0d3".into();
            }
        }
        pod
    }

    /// Changes the condition `PodReadyToStartContainers`, if the kubelet reports one.
    pub fn report_sandbox(&mut self, is_up: bool, now: &str) {
        if let Some(sandbox) = &mut self.sandbox {
            *sandbox = (is_up, now.into());
        }
    }

    fn managed_fields(&self, time: &str) -> Value {
        let names = "conditions containerStatuses hostIP hostIPs podIP podIPs startTime";
        let mut kubelet: Vec<&str> = names.split(' ').collect();
        let created = written_by("kubectl-create", time, "spec", &["containers", "restartPolicy"]);
        // With k3s kubelet and controllers are one manager.
        let is_k3s = self.declared.kubelet == Kubelet::K3s;
        let manager = if is_k3s { "k3s" } else { "kubelet" };
        let mut fields = vec![created];
        if self.phase_by_podgc && !is_k3s {
            let phase = ["conditions", "phase"];
            fields.push(written_by("kube-controller-manager", time, "status", &phase));
        } else {
            kubelet.push("phase");
        }
        fields.push(written_by(manager, time, "status", &kubelet));
        fields.into()
    }

    fn status(&self) -> Value {
        let mut status = json!({
            "phase": format!("{:?}", self.phase),
            "observedGeneration": 1, "qosClass": "BestEffort", "startTime": self.created,
            "hostIP": self.host_ip, "hostIPs": [{"ip": self.host_ip}],
            "conditions": self.conditions(),
            "containerStatuses": [self.container_status()],
        });
        if let Some(ip) = self.ip {
            status["podIP"] = json!(ip);
            let ips = [ip].into_iter().chain(self.name.other_family);
            status["podIPs"] = ips.map(|ip| json!({"ip": ip})).collect();
        }
        status
    }

    fn conditions(&self) -> Value {
        let condition = |kind: &str, (holds, since): &(bool, String)| {
            let status = if *holds { "True" } else { "False" };
            json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since, "observedGeneration": 1})
        };
        let since_created = (true, self.created.clone());
        let mut conditions = vec![
            condition("Initialized", &since_created),
            condition("Ready", &self.ready),
            condition("ContainersReady", &self.ready),
            condition("PodScheduled", &since_created),
        ];
        let sandbox = self.sandbox.iter();
        conditions.extend(sandbox.map(|sandbox| condition("PodReadyToStartContainers", sandbox)));
        let reason = match self.phase {
            _ if self.phase_by_podgc => None,
            Phase::Succeeded => Some("PodCompleted"),
            Phase::Failed => Some("PodFailed"),
            Phase::Pending | Phase::Running => None,
        };
        if let Some(reason) = reason {
            for condition in &mut conditions[1..3] {
                condition["reason"] = reason.into();
            }
        }
        if self.phase_by_podgc {
            let mut disrupted = condition("DisruptionTarget", &since_created);
            disrupted["reason"] = "DeletionByPodGC".into();
            conditions.push(disrupted);
        }
        conditions.into()
    }

    fn container_status(&self) -> Value {
        let id = format!("containerd://{}", self.name.uid.replace('-', "").repeat(2));
        let state = match &self.container {
            Container::Waiting => json!({"waiting": {"reason": "ContainerCreating"}}),
            Container::Running(since) => json!({"running": {"startedAt": since}}),
            Container::Terminated(started, finished, code) => json!({"terminated": {
                "exitCode": code, "reason": if *code == 0 { "Completed" } else { "Error" },
                "startedAt": started, "finishedAt": finished, "containerID": id,
            }}),
        };
        let running = matches!(self.container, Container::Running(_));
        json!({
            "name": "c", "image": "registry.test/server:1", "imageID": "sha256:0", "containerID": id,
            "ready": running && self.ready.0, "started": running, "restartCount": 0, "lastState": {}, "state": state,
        })
    }
}

/// An entry of `metadata.managedFields` for the top-level fields that `manager` has written into `part`: into the status
/// through its subresource.
fn written_by(manager: &str, time: &str, part: &str, fields: &[&str]) -> Value {
    let owned: Map<String, Value> = fields.iter().map(|field| (format!("f:{field}"), json!({}))).collect();
    let mut entry = json!({
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": {format!("f:{part}"): owned},
    });
    if part == "status" {
        entry["subresource"] = part.into();
    }
    entry
}
