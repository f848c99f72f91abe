//! The types of Kubernetes 1.36, and of the Prometheus operator as far as its objects are used. An
//! unknown field is an error: the API server would drop it.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
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
        "ConfigMap" => drop(read::<ConfigMap>(object)),
        "Service" => drop(read::<Service>(object)),
        kind @ ("ServiceMonitor" | "PodMonitor") => {
            let list = if kind == "PodMonitor" {
                "podMetricsEndpoints"
            } else {
                "endpoints"
            };
            let endpoint = ENDPOINT.map(|field| format!("{list}[].{field}"));
            check_custom(
                object,
                MONITOR.map(str::to_owned).into_iter().chain(endpoint),
            );
        }
        "PrometheusRule" => check_custom(object, ["groups".to_owned()]),
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

/// The fields of a monitor beside its list of endpoints, and those of an endpoint. `[]`: of each
/// element of a list.
const MONITOR: [&str; 2] = ["jobLabel", "selector.matchLabels"];
const ENDPOINT: [&str; 4] = [
    "interval",
    "port",
    "relabelings[].sourceLabels[]",
    "relabelings[].targetLabel",
];

/// Panics unless a custom resource has these fields below `spec`, and no others; all are text.
fn check_custom(object: &Value, expected: impl IntoIterator<Item = String>) {
    assert_eq!(object["apiVersion"], "monitoring.coreos.com/v1");
    let mut found = BTreeSet::new();
    fields(object, "", &mut found);
    let metadata = [
        "apiVersion",
        "kind",
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
    ];
    let expected = expected.into_iter().map(|field| format!("spec.{field}"));
    assert_eq!(
        found,
        metadata
            .map(str::to_owned)
            .into_iter()
            .chain(expected)
            .collect()
    );
}

/// Taken as one value each: any labels, and groups of rules, which promtool reads.
const WHOLE: [&str; 3] = [
    "metadata.labels",
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
