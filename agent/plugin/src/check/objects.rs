//! The objects that the check makes, as JSON. Pure.
//!
//! ```text
//! epguard-check-abcde        Jobs finished-N, Services finished-N-CALLER and reused-NODE-CALLER
//! epguard-check-abcde-other  Pods stranger-NODE with Services live-NODE, and all callers
//! epguard-check-abcde-host   callers of the host network, with --host
//! ```
//!
//! The callers are in the second namespace: a Service without a selector takes each pod of the
//! namespaces that its slices name for its own, and while such a pod starts nothing is denied.

use super::plan::{Caller, PORT};
use epguard_client::shared::calls::{CallProtocol, CallTarget, MANAGED_BY};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The label of a pod with what it is.
const ROLE: &str = "epguard.io/check-role";
/// How the names of the namespaces begin.
pub(super) const PREFIX: &str = "epguard-check-";
/// How the names of the Jobs and of their Services begin.
pub(super) const FINISHED: &str = "finished";
/// Where the kubelet reads what a container reports at its end.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// The names of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    letters: String,
    /// The image of all pods.
    pub image: String,
}

impl Site {
    /// New names.
    pub fn new(image: String) -> Self {
        let letters = std::iter::repeat_with(fastrand::lowercase)
            .take(5)
            .collect();
        Self { letters, image }
    }

    /// The namespace of the Services that are stale.
    pub fn main(&self) -> String {
        format!("{PREFIX}{}", self.letters)
    }

    /// The namespace of the live pods and of the callers.
    pub fn other(&self) -> String {
        format!("{}-other", self.main())
    }

    /// The namespace of the callers of the host network.
    pub fn host(&self) -> String {
        format!("{}-host", self.main())
    }

    /// The namespace of a caller's pods.
    pub fn of(&self, caller: Caller) -> String {
        match caller {
            Caller::Pod => self.other(),
            Caller::Host => self.host(),
        }
    }

    /// The namespaces of these callers' check.
    pub fn namespaces(&self, callers: &[Caller]) -> Vec<String> {
        let mut names = vec![self.main(), self.other()];
        if callers.contains(&Caller::Host) {
            names.push(self.host());
        }
        names
    }

    /// A namespace. Only that of the host network may be privileged.
    pub fn namespace(&self, name: &str) -> Value {
        let level = if name == self.host() {
            "privileged"
        } else {
            "restricted"
        };
        let mut labels = own_labels();
        for mode in ["enforce", "audit", "warn"] {
            labels[format!("pod-security.kubernetes.io/{mode}")] = level.into();
        }
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    }

    /// Lets the pods of a namespace call, and be called, where a policy forbids all else.
    pub fn network_policy() -> Value {
        let ports: Value = CallProtocol::ALL
            .map(|protocol| json!({"protocol": protocol.as_str(), "port": PORT}))
            .into();
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "check", "labels": own_labels()},
            "spec": {
                "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": ports}], "egress": [{"ports": ports}],
            },
        })
    }

    /// The Job whose pod serves until it is ended, on a node.
    pub fn job(&self, name: &str, node: &str) -> Value {
        let template = self.server(name, name, node);
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "labels": own_labels()},
            "spec": {
                "backoffLimit": 0,
                "template": {"metadata": {"labels": template["metadata"]["labels"],
                    "annotations": template["metadata"]["annotations"]}, "spec": template["spec"]},
            },
        })
    }

    /// A server with this name on a node.
    pub fn server(&self, name: &str, role: &str, node: &str) -> Value {
        let arguments = ["serve".to_owned(), format!("--name={role}")];
        self.pod(name, role, node, &arguments, Caller::Pod)
    }

    /// A pod that makes calls, and reports them when it ends.
    pub fn caller(&self, name: &str, node: &str, caller: Caller, calls: &Calls) -> Value {
        let mut arguments = vec![
            "call".to_owned(),
            format!("--report={TERMINATION_LOG}"),
            format!("--times={}", calls.times),
            format!("--wait={}", calls.wait_seconds),
        ];
        arguments.extend(calls.awaited.iter().map(|one| format!("--await={one}")));
        arguments.extend(calls.targets.iter().map(ToString::to_string));
        self.pod(name, "caller", node, &arguments, caller)
    }

    /// A pod that ends a server.
    pub fn ender(&self, name: &str, node: &str, server: CallTarget) -> Value {
        let arguments = ["call".to_owned(), format!("--end={server}")];
        self.pod(name, "caller", node, &arguments, Caller::Pod)
    }

    /// A pod on a node that tolerates each taint, as an agent does. It meets the Pod Security
    /// level `restricted`, unless it is of the host network.
    fn pod(
        &self,
        name: &str,
        role: &str,
        node: &str,
        arguments: &[String],
        caller: Caller,
    ) -> Value {
        let mut labels = own_labels();
        labels[ROLE] = role.into();
        // A mesh's proxy beside the container would call in its place.
        labels["sidecar.istio.io/inject"] = "false".into();
        let mut words = vec!["check-pod"];
        words.extend(arguments.iter().map(String::as_str));
        let on_node =
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "annotations": {"linkerd.io/inject": "disabled"}},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "activeDeadlineSeconds": 3600,
                "automountServiceAccountToken": false, "enableServiceLinks": false,
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_node]}}},
                "tolerations": [{"operator": "Exists"}],
                // The user is the image's, or one that the cluster gives to the namespace.
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "check", "image": self.image, "imagePullPolicy": "IfNotPresent", "args": words,
                    "terminationMessagePath": TERMINATION_LOG,
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                        "capabilities": {"drop": ["ALL"]}},
                }],
            },
        });
        if caller == Caller::Host {
            pod["spec"]["hostNetwork"] = true.into();
        }
        pod
    }
}

/// The calls of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Calls {
    /// Called until they answer, before any call is counted.
    pub awaited: Vec<CallTarget>,
    /// The longest wait for these.
    pub wait_seconds: u64,
    /// What is called then.
    pub targets: Vec<CallTarget>,
    /// How often.
    pub times: u32,
}

/// A Service for both families, if the cluster has both. Each caller has one of its own, as agents
/// count by Service.
pub(super) fn service(name: &str, role: Option<&str>) -> Value {
    let ports = CallProtocol::ALL.map(
        |protocol| json!({"name": protocol.as_str().to_lowercase(), "protocol": protocol.as_str(), "port": PORT}),
    );
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": own_labels()},
        "spec": {"ports": ports, "ipFamilyPolicy": "PreferDualStack"},
    });
    if let Some(role) = role {
        service["spec"]["selector"] = json!({ROLE: role});
    }
    if name.starts_with(FINISHED) {
        service["spec"]["publishNotReadyAddresses"] = true.into();
    }
    service
}

/// A pod that a slice names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl PodId {
    /// `namespace/name`, as agents name a pod.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A slice of a Service in the pod's namespace that names the pod at an IP.
pub(super) fn slice(service: &str, pod: &PodId, ip: IpAddr, node: &str) -> Value {
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let mut labels = own_labels();
    labels["kubernetes.io/service-name"] = service.into();
    labels["endpointslice.kubernetes.io/managed-by"] = MANAGED_BY.1.into();
    let ports = CallProtocol::ALL.map(
        |protocol| json!({"name": protocol.as_str().to_lowercase(), "protocol": protocol.as_str(), "port": PORT}),
    );
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-{}", family.to_lowercase()), "labels": labels},
        "addressType": family, "ports": ports,
        "endpoints": [{
            "addresses": [ip], "conditions": {"ready": true, "serving": true, "terminating": false}, "nodeName": node,
            "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        }],
    })
}

fn own_labels() -> Value {
    json!({MANAGED_BY.0: MANAGED_BY.1})
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use k8s_openapi::api::networking::v1::NetworkPolicy;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    fn site() -> Site {
        Site::new("registry.test/epguard:1".into())
    }

    /// Nothing of the object is unknown to the API.
    fn is_known<K: Serialize + DeserializeOwned>(object: &Value) {
        let read: K = serde_json::from_value(object.clone()).unwrap();
        let mut written = serde_json::to_value(read).unwrap();
        if object["kind"] == "Namespace" {
            written["spec"].take();
        }
        for part in ["metadata", "spec", "endpoints", "ports"] {
            assert_eq!(written[part], object[part], "{part}");
        }
    }

    #[test]
    fn every_object_has_only_fields_of_the_api_and_the_label_of_checks() {
        let site = site();
        let pod = PodId {
            namespace: site.main(),
            name: "finished-x".into(),
            uid: "u".into(),
        };
        let live = service("live-1", Some("stranger-1"));
        let stranger = site.server("stranger-1", "stranger-1", "n");
        let named = slice("reused-1-pod", &pod, [10, 0, 0, 1].into(), "n");
        let namespace = site.namespace(&site.main());
        is_known::<Namespace>(&namespace);
        is_known::<Service>(&live);
        is_known::<Pod>(&stranger);
        is_known::<EndpointSlice>(&named);
        is_known::<NetworkPolicy>(&Site::network_policy());
        is_known::<Job>(&site.job("finished-1", "n"));
        for object in [
            live,
            stranger,
            named,
            namespace,
            site.job("finished-1", "n"),
        ] {
            assert_eq!(object["metadata"]["labels"][MANAGED_BY.0], MANAGED_BY.1);
        }
    }

    #[test]
    fn pods_meet_the_level_that_their_namespace_enforces() {
        let site = site();
        let level = |name: &str| {
            site.namespace(name)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].clone()
        };
        assert_eq!(
            [site.main(), site.other(), site.host()].map(|name| level(&name)),
            ["restricted", "restricted", "privileged"]
        );
        let calls = Calls::default();
        let [pod, host] =
            [Caller::Pod, Caller::Host].map(|caller| site.caller("c", "n", caller, &calls));
        assert_eq!(pod["spec"]["hostNetwork"], Value::Null);
        assert_eq!(host["spec"]["hostNetwork"], true);
        for pod in [
            &pod["spec"],
            &site.job("finished-1", "n")["spec"]["template"]["spec"],
        ] {
            let container = &pod["containers"][0];
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(
                pod["securityContext"]["seccompProfile"]["type"],
                "RuntimeDefault"
            );
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["readOnlyRootFilesystem"], true);
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
            assert_eq!(pod["automountServiceAccountToken"], false);
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }

    #[test]
    fn names_are_those_that_the_user_is_told_of() {
        let site = site();
        let name = site.main();
        let letters = name.strip_prefix(PREFIX).unwrap();
        assert!(
            letters.len() == 5 && letters.chars().all(|letter| letter.is_ascii_lowercase()),
            "{name}"
        );
        assert_eq!(
            site.namespaces(&[Caller::Pod]),
            [name.clone(), format!("{name}-other")]
        );
        assert_eq!(site.namespaces(&[Caller::Host]).len(), 3);
    }
}
