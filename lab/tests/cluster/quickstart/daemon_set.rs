//! The controller of `DaemonSet`s, as far as one `DaemonSet` with one pod needs it.

use epguard_lab::api::{Kind, ObjectRef, Store};
use serde_json::{Value, json};

/// The agents' `DaemonSet`, or an object beside it.
pub(crate) fn named(kind: Kind, name: &str) -> ObjectRef {
    ObjectRef::new(kind, "epguard", name)
}

/// The pod of a template on a node, as the API shows it.
pub(crate) fn publish_pod(store: &Store, name: &str, node: &str, template: &Value, ready: bool) {
    let ready = if ready { "True" } else { "False" };
    let mut spec = template["spec"].clone();
    spec["nodeName"] = node.into();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": name, "namespace": "epguard", "labels": template["metadata"]["labels"]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    });
    store.apply(pod).unwrap();
}

/// The status of a `DaemonSet` whose only pod is of its newest template.
pub(crate) fn publish_status(store: &Store, set: &Value, available: bool) {
    let available = i32::from(available);
    let status = json!({"status": {
        "observedGeneration": set["metadata"]["generation"], "desiredNumberScheduled": 1,
        "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberMisscheduled": 0,
        "numberReady": available, "numberAvailable": available,
    }});
    // A command may have deleted it meanwhile.
    let _ = store.patch(&named(Kind::DaemonSet, "epguard"), &status);
}

/// Keeps a template, so that `kubectl rollout undo` finds the one before.
pub(crate) fn publish_revision(store: &Store, set: &Value, number: usize) {
    let mut template = set["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "epguard",
        "uid": set["metadata"]["uid"], "controller": true});
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "data": {"spec": {"template": template}},
        "metadata": {"name": format!("epguard-{number}"), "namespace": "epguard", "ownerReferences": [owner],
            "labels": set["spec"]["selector"]["matchLabels"]},
    });
    store.apply(revision).unwrap();
}
