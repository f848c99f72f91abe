//! What kubelets and the controller of `DaemonSet`s publish of the agents.

use epguard_lab::api::{Kind, ObjectRef, Store};
use serde_json::{Value, json};

/// The agents' `DaemonSet`, or an object beside it.
pub(crate) fn named(kind: Kind, name: &str) -> ObjectRef {
    ObjectRef::new(kind, "epguard", name)
}

/// The pod of a template on a node, as the API shows it.
pub(super) fn publish_pod(store: &Store, name: &str, node: &str, template: &Value, ready: bool) {
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

/// The status of a `DaemonSet` whose pods are all of its newest template.
pub(crate) fn publish_status(store: &Store, set: &Value, pods: u32, available: u32) {
    let status = json!({"status": {
        "observedGeneration": set["metadata"]["generation"], "desiredNumberScheduled": pods,
        "currentNumberScheduled": pods, "updatedNumberScheduled": pods, "numberMisscheduled": 0,
        "numberReady": available, "numberAvailable": available,
    }});
    // A command may have deleted it meanwhile.
    let _ = store.patch(&named(Kind::DaemonSet, "epguard"), &status);
}

/// Keeps a template, so that `kubectl rollout undo` finds the one before.
pub(super) fn publish_revision(store: &Store, set: &Value, number: usize) {
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
