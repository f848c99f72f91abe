//! A pod, with the status that its kubelet would report (recorded in `lab/traces`).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::{uid, without_nulls};
use crate::object::merged;
use crate::scenario::format::{Kubelet, Owner, Pod, Service};

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
            self.net1
                .with_context(|| format!("{} has no `net1`", self.name))
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
    /// Condition `PodReadyToStartContainers`, and the time of its last change; a kubelet before
    /// 1.29 has none.
    pub sandbox: Option<(bool, String)>,
    /// The state of the only container.
    pub container: Value,
}

impl PodObject {
    /// The object as the API shows it after a change `now`, RFC 3339.
    pub fn render(&self, now: &str) -> Value {
        let Self { name, declared, .. } = self;
        let annotations = merged(&json!(declared.annotations), &self.own_annotations());
        let ips: Option<Value> = self.ip.map(|ip| {
            [ip].into_iter()
                .chain(name.other_family)
                .map(|ip| json!({"ip": ip}))
                .collect()
        });
        without_nulls(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": name.namespace, "name": name.name, "uid": name.uid, "generation": 1,
                "creationTimestamp": self.created, "labels": declared.labels, "annotations": annotations,
                "ownerReferences": declared.owner.as_ref().map(|owner| [owner_reference(owner, &name.namespace)]),
                "managedFields": self.managed_fields(now),
            },
            "spec": {
                "nodeName": declared.node, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "hostNetwork": declared.host_network.then_some(true),
                "containers": [{"name": "c", "image": "registry.test/server:1", "ports": self.host_ports()}],
            },
            "status": {
                "phase": self.phase, "observedGeneration": 1, "qosClass": "BestEffort", "startTime": self.created,
                "hostIP": self.host_ip, "hostIPs": [{"ip": self.host_ip}], "podIP": self.ip, "podIPs": ips,
                "conditions": self.conditions(), "containerStatuses": [self.container_status()],
            },
        }))
    }

    /// The annotations that Multus and the kubelet write.
    fn own_annotations(&self) -> Value {
        let mut annotations = json!({});
        if let Some(ip) = self.name.net1
            && self.container["waiting"].is_null()
        {
            let networks =
                json!([{"name": "lab/net1", "interface": "net1", "ips": [ip], "dns": {}}]);
            annotations["k8s.v1.cni.cncf.io/network-status"] = networks.to_string().into();
        }
        if self.declared.mirror {
            annotations["kubernetes.io/config.source"] = "file".into();
            annotations["kubernetes.io/config.hash"] = "9a7c4e21b0d3".into();
            annotations["kubernetes.io/config.mirror"] = "9a7c4e21b0d3".into();
        }
        annotations
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

    /// The writers of the top-level fields of spec and status: of the status through its
    /// subresource.
    fn managed_fields(&self, time: &str) -> Value {
        // With k3s kubelet and controllers are one manager.
        let is_k3s = self.declared.kubelet == Kubelet::K3s;
        let usual = if is_k3s { "k3s" } else { "kubelet" };
        let kubelet = self.declared.manager.as_deref().unwrap_or(usual);
        let by_podgc = self.phase_by_podgc && !is_k3s;
        let mut of_kubelet =
            "conditions containerStatuses hostIP hostIPs podIP podIPs startTime".to_owned();
        if !by_podgc {
            of_kubelet += " phase";
        }
        let writers = [
            ("kubectl-create", "spec", "containers restartPolicy", true),
            (
                "kube-controller-manager",
                "status",
                "conditions phase",
                by_podgc,
            ),
            (kubelet, "status", &of_kubelet, true),
        ];
        let written = writers.into_iter().filter(|(.., has_written)| *has_written);
        let entries = written.map(|(manager, part, fields, _)| {
            let owned: Map<String, Value> = fields
                .split(' ')
                .map(|field| (format!("f:{field}"), json!({})))
                .collect();
            without_nulls(&json!({
                "manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
                "fieldsType": "FieldsV1", "fieldsV1": {format!("f:{part}"): owned},
                "subresource": (part == "status").then_some(part),
            }))
        });
        entries.collect()
    }

    /// The container's ports that are also hostPorts. Each leads to the first port of the server,
    /// as in the step `host-ports`.
    fn host_ports(&self) -> Option<Value> {
        let Pod {
            ports, host_ports, ..
        } = &self.declared;
        if host_ports.is_empty() {
            return None;
        }
        let inside = ports.first()?;
        let mut entries = Vec::new();
        for outside in host_ports {
            let entry = json!({"containerPort": inside, "hostPort": outside, "protocol": "TCP"});
            entries.push(entry);
        }
        Some(entries.into())
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

/// A controller's reference. Its UID is always the same for the same kind and name in a namespace.
fn owner_reference(owner: &Owner, namespace: &str) -> Value {
    let Owner {
        kind,
        name,
        api_version,
    } = owner;
    let mut hasher = DefaultHasher::new();
    (kind, namespace, name).hash(&mut hasher);
    let uid = uid(
        0x0e4,
        usize::try_from(hasher.finish() >> 32).unwrap_or_default(),
    );
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(story: &str) -> Value {
        let ip = IpAddr::from([10, 0, 0, 1]);
        let name = PodName {
            namespace: "a".into(),
            name: "b".into(),
            uid: uid(0xb0d, 1),
            ip,
            next_ip: None,
            other_family: None,
            net1: None,
        };
        let pod = PodObject {
            name,
            declared: serde_saphyr::from_str(story).unwrap(),
            host_ip: ip,
            created: "now".into(),
            phase: "Running",
            phase_by_podgc: false,
            ip: Some(ip),
            ready: (true, "now".into()),
            sandbox: None,
            container: json!({}),
        };
        pod.render("now")
    }

    #[test]
    fn owner_network_ports_and_manager_are_those_of_the_story() {
        let object = rendered(
            "{is: a/b, owner: {kind: Job, name: j, api-version: batch/v1}, host-network: true, ports: [9100], \
             host-ports: [80], manager: kubelet.exe}",
        );
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!(
            [&owner["apiVersion"], &owner["kind"], &owner["name"]],
            ["batch/v1", "Job", "j"]
        );
        assert_eq!(object["spec"]["hostNetwork"], true);
        let port = json!([{"containerPort": 9100, "hostPort": 80, "protocol": "TCP"}]);
        assert_eq!(object["spec"]["containers"][0]["ports"], port);
        let writer = &object["metadata"]["managedFields"][1];
        assert_eq!(
            [&writer["manager"], &writer["subresource"]],
            ["kubelet.exe", "status"]
        );
    }

    #[test]
    fn pods_have_none_of_these_by_default_and_two_of_one_owner_the_same_reference() {
        let plain = rendered("{is: a/b}");
        let absent = [
            &plain["metadata"]["ownerReferences"],
            &plain["spec"]["hostNetwork"],
        ];
        assert_eq!(absent, [&Value::Null; 2]);
        assert_eq!(plain["spec"]["containers"][0]["ports"], Value::Null);
        let owner = |name| {
            let object = rendered(&format!(
                "{{is: a/b, owner: {{kind: ReplicaSet, name: {name}}}}}"
            ));
            object["metadata"]["ownerReferences"][0]["uid"].clone()
        };
        assert!(owner("r") == owner("r") && owner("r") != owner("s"));
    }
}
