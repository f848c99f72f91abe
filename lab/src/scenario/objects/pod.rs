//! A pod, with the status that its kubelet would report (recorded in `lab/traces`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::{Clock, managed};

/// The fields of a pod that change during a story.
#[derive(Clone, Debug)]
pub struct PodObject {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// A static pod's mirror.
    pub mirror: bool,
    /// `spec.nodeName`.
    pub node: String,
    /// The node's address.
    pub host_ip: IpAddr,
    /// `metadata.creationTimestamp`.
    pub created: String,
    /// `status.phase`.
    pub phase: Phase,
    /// `PodGC` and not the kubelet has written the phase.
    pub phase_by_podgc: bool,
    /// The kubelet and `PodGC` are one program, k3s.
    pub one_binary: bool,
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
#[allow(missing_docs, reason = "named after the phases")]
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
    #[must_use]
    pub fn render(&self, clock: &Clock) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": self.namespace, "name": self.name, "uid": self.uid, "generation": 1,
                "creationTimestamp": self.created, "labels": self.labels, "annotations": self.annotations,
                "managedFields": self.managed_fields(&clock.text()),
            },
            "spec": {
                "nodeName": self.node, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
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
        if self.mirror {
            meta["annotations"]["kubernetes.io/config.source"] = "file".into();
            for key in ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"] {
                meta["annotations"][key] = "9a7c4e21b0d3".into();
            }
        }
        pod
    }

    fn managed_fields(&self, time: &str) -> Value {
        let mut kubelet = vec![
            "conditions",
            "containerStatuses",
            "hostIP",
            "hostIPs",
            "podIP",
            "podIPs",
            "startTime",
        ];
        let mut fields = vec![managed::spec(
            "kubectl-create",
            time,
            &["containers", "restartPolicy"],
        )];
        if self.one_binary {
            kubelet.push("phase");
            fields.push(managed::status("k3s", time, &kubelet));
            return fields.into();
        }
        if self.phase_by_podgc {
            fields.push(managed::status(
                "kube-controller-manager",
                time,
                &["conditions", "phase"],
            ));
        } else {
            kubelet.push("phase");
        }
        fields.push(managed::status("kubelet", time, &kubelet));
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
            status["podIPs"] = json!([{"ip": ip}]);
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
        conditions.extend(
            self.sandbox
                .iter()
                .map(|sandbox| condition("PodReadyToStartContainers", sandbox)),
        );
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
        let id = format!("containerd://{}", self.uid.replace('-', "").repeat(2));
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
