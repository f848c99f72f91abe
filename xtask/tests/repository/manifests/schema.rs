//! The types of Kubernetes 1.36, and of the Prometheus operator and OpenShift as far as their
//! objects are used. An unknown field is an error: the API server would drop it.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// Panics unless the object fits its type without a rest.
pub fn check(object: &Value) {
    match object["kind"].as_str().unwrap() {
        "Namespace" => drop(read::<Namespace>(object)),
        "ServiceAccount" => drop(read::<ServiceAccount>(object)),
        "ClusterRole" => drop(read::<ClusterRole>(object)),
        "ClusterRoleBinding" => drop(read::<ClusterRoleBinding>(object)),
        "Role" => drop(read::<Role>(object)),
        "RoleBinding" => drop(read::<RoleBinding>(object)),
        "DaemonSet" => drop(read::<DaemonSet>(object)),
        "Pod" => drop(read::<Pod>(object)),
        "ConfigMap" => drop(read::<ConfigMap>(object)),
        "Service" => drop(read::<Service>(object)),
        kind @ ("ServiceMonitor" | "PodMonitor") => {
            let list = if kind == "PodMonitor" {
                "podMetricsEndpoints"
            } else {
                "endpoints"
            };
            let endpoint = ENDPOINT.map(|field| format!("spec.{list}[].{field}"));
            let further = FURTHER.map(|field| format!("spec.{list}[].{field}"));
            let monitor = MONITOR.map(|field| format!("spec.{field}"));
            check_custom(object, &[&monitor[..], &endpoint].concat(), &further);
        }
        "PrometheusRule" => check_custom(object, &["spec.groups".to_owned()], &[]),
        "SecurityContextConstraints" => drop(read::<SecurityContextConstraints>(object)),
        other => panic!("no type for {other}"),
    }
}

/// Reads an object without loss: k8s-openapi ignores unknown fields.
pub fn read<T: DeserializeOwned + Serialize>(object: &Value) -> T {
    let read: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(
        &serde_json::to_value(&read).unwrap(),
        object,
        "a field of {} is not one of the API's",
        object["kind"]
    );
    read
}

/// The fields of a monitor beside its list of endpoints, those of an endpoint, and those that an
/// endpoint may have. `[]`: of each element of a list.
const MONITOR: [&str; 2] = ["jobLabel", "selector.matchLabels"];
const ENDPOINT: [&str; 4] = [
    "interval",
    "port",
    "relabelings[].sourceLabels[]",
    "relabelings[].targetLabel",
];
const FURTHER: [&str; 7] = [
    "scrapeTimeout",
    "relabelings[].action",
    "relabelings[].regex",
    "relabelings[].replacement",
    "metricRelabelings[].action",
    "metricRelabelings[].regex",
    "metricRelabelings[].sourceLabels[]",
];

/// Panics unless a custom resource has these fields, and no others but `further` ones; all are
/// text.
fn check_custom(object: &Value, fields_needed: &[String], further: &[String]) {
    assert_eq!(object["apiVersion"], "monitoring.coreos.com/v1");
    let mut found = BTreeSet::new();
    fields(object, "", &mut found);
    found.remove("metadata.annotations");
    found.retain(|field| !further.contains(field));
    let metadata = [
        "apiVersion",
        "kind",
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
    ];
    let mut expected: BTreeSet<String> = metadata.map(str::to_owned).into();
    expected.extend(fields_needed.iter().cloned());
    assert_eq!(found, expected);
}

/// OpenShift's object: the fields that its API requires, and some of the others
/// (`security/v1/types.go` of openshift/api).
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the fields are those of the API"
)]
pub struct SecurityContextConstraints {
    api_version: String,
    kind: String,
    pub metadata: ObjectMeta,
    priority: Option<i32>,
    pub allow_host_network: bool,
    pub allow_host_ports: bool,
    pub allow_host_dir_volume_plugin: bool,
    #[serde(rename = "allowHostIPC")]
    pub allow_host_ipc: bool,
    #[serde(rename = "allowHostPID")]
    pub allow_host_pid: bool,
    pub allow_privileged_container: bool,
    pub allow_privilege_escalation: bool,
    pub allowed_capabilities: Vec<String>,
    pub default_add_capabilities: Vec<String>,
    pub required_drop_capabilities: Vec<String>,
    pub read_only_root_filesystem: bool,
    pub volumes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seccomp_profiles: Vec<String>,
    fs_group: Strategy,
    run_as_user: Strategy,
    se_linux_context: Strategy,
    supplemental_groups: Strategy,
    users: Vec<String>,
    groups: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strategy {
    r#type: String,
}

/// Taken as one value each: any labels and annotations, and groups of rules, which promtool reads.
const WHOLE: [&str; 4] = [
    "metadata.labels",
    "metadata.annotations",
    "spec.selector.matchLabels",
    "spec.groups",
];

/// The paths of all values, which are text, without indices.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        _ if WHOLE.contains(&path) => _ = found.insert(path.to_owned()),
        Value::Object(map) => {
            let join = |key: &String| {
                if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                }
            };
            map.iter()
                .for_each(|(key, value)| fields(value, &join(key), found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| fields(item, &format!("{path}[]"), found)),
        Value::String(_) => _ = found.insert(path.to_owned()),
        other => panic!("{path} is {other}, and no text"),
    }
}
