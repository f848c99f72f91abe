//! A Namespace.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// An active Namespace with these annotations.
#[must_use]
pub fn namespace(name: &str, annotations: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}, "annotations": annotations},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
    })
}
