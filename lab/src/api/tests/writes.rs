use serde_json::{Value, json};

use super::{Lab, pod};
use crate::api::{Kind, ObjectRef};

const PODS: &str = "/api/v1/namespaces/ns/pods";
const POD: &str = "/api/v1/namespaces/ns/pods/a";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[tokio::test]
async fn a_created_pod_is_stamped_and_pending() {
    let lab = Lab::start().await;
    let (code, created) = lab.call("POST", PODS, "application/json", &pod("a")).await;
    assert_eq!((code, &created["status"]), (201, &json!({"phase": "Pending"})));
    let meta = &created["metadata"];
    assert_eq!(meta["resourceVersion"], "301");
    assert_eq!(meta["generation"], 1);
    assert!(meta["uid"].is_string() && meta["creationTimestamp"].is_string(), "{meta}");
    assert_eq!(lab.get(POD).await, (200, created));
    let (code, status) = lab.call("POST", PODS, "application/json", &pod("a")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
}

#[tokio::test]
async fn generated_names_differ() {
    let lab = Lab::start().await;
    let object = json!({"metadata": {"generateName": "web-"}, "absurd": [{"ip": "banana"}, 1, null]});
    let (_, first) = lab.call("POST", PODS, "application/json", &object).await;
    let (_, second) = lab.call("POST", PODS, "application/json", &object).await;
    assert!(first["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!(first["absurd"], object["absurd"]);
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
async fn the_status_is_written_through_its_subresource_only() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let patch = json!({"status": {"phase": "Failed"}, "spec": {"nodeName": "node-b"}});
    let (_, main) = lab.call("PATCH", POD, MERGE, &patch).await;
    assert_eq!((&main["status"]["phase"], &main["spec"]["nodeName"]), (&json!("Running"), &json!("node-b")));
    assert_eq!(main["metadata"]["generation"], 2);
    let patch = json!({"status": {"phase": "Failed"}, "spec": {"nodeName": "node-c"}});
    let (_, status) =
        lab.call("PATCH", &format!("{POD}/status?fieldManager=kubelet"), STRATEGIC, &patch).await;
    assert_eq!(
        (&status["status"]["phase"], &status["spec"]["nodeName"]),
        (&json!("Failed"), &json!("node-b"))
    );
    assert_eq!(status["metadata"]["generation"], 2);
    let entries = status["metadata"]["managedFields"].as_array().unwrap();
    let kubelet = entries.iter().find(|entry| entry["manager"] == "kubelet").unwrap();
    assert_eq!(kubelet["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
    assert_eq!(kubelet["subresource"], "status");
    assert_eq!(lab.get(&format!("{POD}/status")).await.1, status);
}

#[tokio::test]
async fn managed_fields_of_a_status_patch_are_kept() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let given =
        json!([{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:phase": {}}}}]);
    let patch = json!({"metadata": {"managedFields": given}, "status": {"phase": "Succeeded"}});
    let (_, stored) = lab.call("PATCH", &format!("{POD}/status"), MERGE, &patch).await;
    assert_eq!(stored["metadata"]["managedFields"], given);
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
