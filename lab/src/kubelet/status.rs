//! The status of a pod as its kubelet writes it (recorded in `lab/traces`), with the managers of its
//! fields.

use super::process::End;
use crate::api::timestamp;
use crate::object::non_empty;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// What a kubelet knows of a pod.
pub(super) struct PodStatus {
    host_ips: [IpAddr; 2],
    ips: [IpAddr; 2],
    /// Container name, image, and the writers of what is not the kubelet's.
    object: Value,
    start: String,
    phase: &'static str,
    /// Whether the IPs are shown.
    shows_ips: bool,
    /// Conditions `Ready` and `ContainersReady`, with the reason and the time of the last change.
    ready: (bool, Option<&'static str>, String),
    /// Condition `PodReadyToStartContainers`.
    sandbox: (bool, String),
    container: Value,
}

impl PodStatus {
    /// A pod that was bound to the node now.
    pub(super) fn new(host_ips: [IpAddr; 2], ips: [IpAddr; 2], object: &Value) -> Self {
        let now = now();
        Self {
            host_ips,
            ips,
            object: object.clone(),
            start: now.clone(),
            phase: "Pending",
            shows_ips: false,
            ready: (false, Some("ContainersNotReady"), now.clone()),
            sandbox: (false, now),
            container: json!({"waiting": {"reason": "ContainerCreating"}}),
        }
    }

    /// The sandbox has its IPs, which are not shown yet.
    pub(super) fn sandbox_is_up(&mut self) {
        self.sandbox = (true, now());
    }

    /// The container runs.
    pub(super) fn started(&mut self) {
        self.phase = "Running";
        self.shows_ips = true;
        self.ready = (true, None, now());
        self.container = json!({"running": {"startedAt": now()}});
    }

    /// The container has ended; the sandbox is still there.
    pub(super) fn exited(&mut self, end: &End) {
        let (reason, of_pod) = match end.code {
            0 => ("Completed", "PodCompleted"),
            _ => ("Error", "PodFailed"),
        };
        let mut terminated = json!({
            "exitCode": end.code, "reason": reason, "startedAt": self.container["running"]["startedAt"],
            "finishedAt": now(), "containerID": self.container_id(),
        });
        if !end.message.is_empty() {
            terminated["message"] = end.message.as_str().into();
        }
        self.container = json!({"terminated": terminated});
        self.ready = (false, Some(of_pod), now());
    }

    /// The sandbox is gone.
    pub(super) fn ended(&mut self) {
        let code = &self.container["terminated"]["exitCode"];
        self.phase = if *code == 0 { "Succeeded" } else { "Failed" };
        self.sandbox = (false, now());
    }

    /// The patch of the object.
    pub(super) fn patch(&self) -> Value {
        json!({"metadata": {"managedFields": Self::managed_fields()}, "status": self.status()})
    }

    fn status(&self) -> Value {
        let ips = if self.shows_ips {
            self.ips.map(|ip| json!({"ip": ip})).to_vec().into()
        } else {
            Value::Null
        };
        let first = if self.shows_ips {
            json!(self.ips[0])
        } else {
            Value::Null
        };
        let is_running = self.container["running"].is_object();
        let container = &self.object["spec"]["containers"][0];
        json!({
            "observedGeneration": 1, "phase": self.phase, "qosClass": "Burstable", "startTime": self.start,
            "hostIP": self.host_ips[0], "hostIPs": self.host_ips.map(|ip| json!({"ip": ip})),
            "podIP": first, "podIPs": ips, "conditions": self.conditions(),
            "containerStatuses": [{
                "name": container["name"], "image": container["image"], "imageID": "sha256:0",
                "containerID": self.container_id(), "ready": is_running, "started": is_running, "restartCount": 0,
                "lastState": {}, "state": self.container,
            }],
        })
    }

    fn container_id(&self) -> String {
        let uid = non_empty(&self.object["metadata"]["uid"]).unwrap_or_default();
        format!("containerd://{}", uid.replace('-', "").repeat(2))
    }

    fn conditions(&self) -> Value {
        let (ready, reason, since) = &self.ready;
        let rows = [
            (
                "PodReadyToStartContainers",
                self.sandbox.0,
                None,
                &self.sandbox.1,
            ),
            ("Initialized", true, None, &self.start),
            ("Ready", *ready, *reason, since),
            ("ContainersReady", *ready, *reason, since),
            ("PodScheduled", true, None, &self.start),
        ];
        let mut conditions = Vec::new();
        for (kind, holds, reason, since) in rows {
            let mut condition = json!({
                "type": kind, "status": if holds { "True" } else { "False" }, "lastProbeTime": null,
                "lastTransitionTime": since, "observedGeneration": 1,
            });
            if let Some(reason) = reason {
                condition["reason"] = reason.into();
            }
            conditions.push(condition);
        }
        conditions.into()
    }

    /// The client wrote the spec; the kubelet writes the status, through its subresource.
    fn managed_fields() -> Value {
        let entry = |manager: &str, part: &str, fields: &str| {
            let owned: Map<String, Value> = fields
                .split(' ')
                .map(|field| (format!("f:{field}"), json!({})))
                .collect();
            let mut entry = json!({
                "manager": manager, "operation": "Update", "apiVersion": "v1", "time": now(),
                "fieldsType": "FieldsV1", "fieldsV1": {format!("f:{part}"): owned},
            });
            if part == "status" {
                entry["subresource"] = part.into();
            }
            entry
        };
        let of_status = "conditions containerStatuses hostIP hostIPs phase podIP podIPs startTime";
        json!([
            entry("kubectl-epguard", "spec", "containers restartPolicy"),
            entry("kubelet", "status", of_status),
        ])
    }
}

fn now() -> String {
    timestamp(Timestamp::now())
}
