//! What `kubectl` asks before it asks for objects.

use super::Kind;
use serde_json::{Value, json};

/// The document at a discovery path, if it is one.
pub(super) fn document(path: &str) -> Option<Value> {
    let group = json!({"groupVersion": "discovery.k8s.io/v1", "version": "v1"});
    let discovery = json!({"name": "discovery.k8s.io", "versions": [group], "preferredVersion": group});
    Some(match path {
        "/version" => {
            json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0-epguard-lab", "platform": "linux/amd64"})
        }
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [discovery]}),
        "/apis/discovery.k8s.io" => {
            let mut group = discovery;
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            group
        }
        "/api/v1" => resources(""),
        "/apis/discovery.k8s.io/v1" => resources("discovery.k8s.io"),
        "/openapi/v3" => json!({"paths": {}}),
        _ => return None,
    })
}

fn resources(group: &str) -> Value {
    let mut list = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| kind.group() == group) {
        list.push(json!({
            "name": kind.plural(), "singularName": kind.name().to_lowercase(), "namespaced": kind.namespaced(),
            "kind": kind.name(), "shortNames": kind.short_names(),
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        }));
        if kind.has_status() {
            list.push(json!({
                "name": format!("{}/status", kind.plural()), "singularName": "", "namespaced": kind.namespaced(),
                "kind": kind.name(), "verbs": ["get", "patch", "update"],
            }));
        }
    }
    let version = if group.is_empty() {
        "v1".to_owned()
    } else {
        format!("{group}/v1")
    };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list})
}
