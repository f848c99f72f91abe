use serde_json::{Value, json};

use super::{Lab, pod};
use crate::api::{Kind, ObjectRef};

const PODS: &str = "/api/v1/namespaces/ns/pods";
const POD: &str = "/api/v1/namespaces/ns/pods/a";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[tokio::test]
async fn a_created_pod_is_stamped() {
    let lab = Lab::start().await;
    let (code, created) = lab.call("POST", PODS, "application/json", &pod("a")).await;
    assert_eq!((code, &created["status"]), (201, &pod("a")["status"]));
    let meta = &created["metadata"];
    assert_eq!(meta["resourceVersion"], "301");
    assert_eq!(meta["generation"], 1);
    assert!(meta["uid"].is_string() && meta["creationTimestamp"].is_string(), "{meta}");
    assert_eq!(lab.get(POD).await, (200, created));
    let (code, status) = lab.call("POST", PODS, "application/json", &pod("a")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
}

#[tokio::test]
async fn an_update_from_an_old_version_conflicts() {
    let lab = Lab::start().await;
    let read = lab.store.apply(pod("a")).unwrap();
    lab.store.patch(&ObjectRef::pod("ns", "a"), &json!({"metadata": {"labels": {"x": "1"}}})).unwrap();
    let (code, status) = lab.call("PUT", POD, "application/json", &read).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let patch =
        json!({"metadata": {"resourceVersion": read["metadata"]["resourceVersion"], "labels": {"y": "2"}}});
    assert_eq!(lab.call("PATCH", POD, MERGE, &patch).await.0, 409);
    let current = lab.get(POD).await.1;
    let mut changed = current.clone();
    changed["metadata"]["labels"]["x"] = "2".into();
    let (code, stored) = lab.call("PUT", POD, "application/json", &changed).await;
    assert_eq!((code, &stored["metadata"]["labels"]["x"]), (200, &json!("2")));
    assert_eq!(lab.call("PUT", "/api/v1/namespaces/ns/pods/b", "application/json", &json!({})).await.0, 404);
}

#[tokio::test]
async fn a_write_that_changes_nothing_sends_no_event() {
    let lab = Lab::start().await;
    let first = lab.store.apply(pod("a")).unwrap();
    assert_eq!(lab.store.apply(pod("a")).unwrap(), first);
    assert_eq!(lab.call("PUT", POD, "application/json", &first).await.1, first);
    assert_eq!(lab.store.resource_version(Kind::Pod), lab.store.revision());
    assert_eq!(first["metadata"]["resourceVersion"], lab.store.revision().to_string());
}

#[tokio::test]
async fn every_patch_format_is_understood() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let json_patch = json!([{"op": "add", "path": "/metadata/labels/j", "value": "1"}]);
    let strategic = json!({"metadata": {"labels": {"s": "1"}}});
    lab.call("PATCH", POD, "application/json-patch+json", &json_patch).await;
    let (_, stored) = lab.call("PATCH", POD, STRATEGIC, &strategic).await;
    assert_eq!(stored["metadata"]["labels"], json!({"app": "a", "j": "1", "s": "1"}));
    assert_eq!(lab.call("PATCH", POD, "text/plain", &strategic).await.0, 415);
}

#[tokio::test]
async fn bad_bodies_get_an_error_and_no_panic() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let kind = json!({"kind": "Service", "metadata": {"name": "x"}});
    let namespace = json!({"metadata": {"name": "x", "namespace": "other"}});
    for (method, path, body, code) in [
        ("POST", PODS, json!([]), 422),
        ("POST", PODS, json!({"metadata": 7}), 422),
        ("POST", PODS, json!({"metadata": {}}), 422),
        ("POST", PODS, kind, 400),
        ("POST", PODS, namespace, 400),
        ("POST", PODS, json!({"metadata": {"name": "x", "resourceVersion": "7"}}), 400),
        ("PUT", POD, json!("banana"), 400),
        ("PUT", POD, json!({"metadata": []}), 400),
        ("PUT", POD, json!({"metadata": {"uid": "other"}}), 409),
        ("POST", POD, json!({}), 405),
        ("GET", "/api/v1/secrets", Value::Null, 404),
    ] {
        let (got, status) = lab.call(method, path, "application/json", &body).await;
        assert_eq!((got, &status["kind"]), (code, &json!("Status")), "{method} {path} {body}: {status}");
    }
    for patch in [json!(7), json!([]), json!({"metadata": 7}), json!({"metadata": {"name": "b"}})] {
        assert_eq!(lab.call("PATCH", POD, MERGE, &patch).await.0, 400, "{patch}");
    }
}
