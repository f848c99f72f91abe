//! The types of Kubernetes 1.36, and of the Prometheus operator as far as its objects are used. An unknown field is an
//! error: the API server would drop it.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

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
        "ConfigMap" => drop(read::<ConfigMap>(object)),
        "Service" => drop(read::<Service>(object)),
        "ServiceMonitor" | "PodMonitor" => drop(read::<Custom<MonitorSpec>>(object)),
        "PrometheusRule" => drop(read::<Custom<RuleSpec>>(object)),
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

/// A custom resource.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Custom<T> {
    api_version: ApiVersion,
    kind: String,
    metadata: Metadata,
    spec: T,
}

#[derive(Serialize, Deserialize)]
enum ApiVersion {
    #[serde(rename = "monitoring.coreos.com/v1")]
    MonitoringV1,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct MonitorSpec {
    job_label: String,
    selector: Selector,
    /// `podMetricsEndpoints` of a `PodMonitor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoints: Option<Vec<Endpoint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_metrics_endpoints: Option<Vec<Endpoint>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    port: String,
    interval: String,
    relabelings: Vec<Relabeling>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Relabeling {
    source_labels: Vec<String>,
    target_label: String,
}

/// A file of rules, as promtool reads it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSpec {
    groups: Vec<Value>,
}
