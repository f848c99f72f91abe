use serde_json::json;

use super::{Lab, connect, names, pod};
use crate::api::ObjectRef;

const PODS: &str = "/api/v1/pods";

async fn three_pods() -> Lab {
    let lab = Lab::start().await;
    for name in ["a", "b", "c"] {
        lab.store.apply(pod(name)).unwrap();
    }
    lab
}

#[tokio::test]
async fn pages_show_one_snapshot_despite_changes_in_between() {
    let lab = three_pods().await;
    let (_, first) = lab.get(&format!("{PODS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    lab.store.remove(&ObjectRef::pod("ns", "c")).unwrap();
    lab.store.apply(pod("d")).unwrap();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = lab.get(&format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(second["metadata"]["continue"], json!(null));
    assert_eq!(names(&lab.get(PODS).await.1), ["a", "b", "d"]);
}

#[tokio::test]
async fn a_continue_token_expires_with_the_history() {
    let lab = three_pods().await;
    let (_, first) = lab.get(&format!("{PODS}?limit=1")).await;
    let next = format!("{PODS}?limit=1&continue={}", first["metadata"]["continue"].as_str().unwrap());
    lab.store.apply(pod("d")).unwrap();
    lab.store.forget_history();
    let (code, status) = lab.get(&next).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    assert_eq!(lab.get(&format!("{PODS}?continue=banana")).await.0, 400);
}

#[tokio::test]
async fn resource_versions_are_handled_as_the_api_documents() {
    let lab = three_pods().await;
    let first = lab.store.revision() - 2;
    let now = lab.store.revision();
    for (query, code, items) in [
        (String::new(), 200, 3),
        ("resourceVersion=0".into(), 200, 3),
        (format!("resourceVersion={first}"), 200, 3),
        (format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"), 200, 3),
        (format!("resourceVersion={}&resourceVersionMatch=NotOlderThan", now + 1), 504, 0),
        ("resourceVersionMatch=Exact".into(), 400, 0),
        ("resourceVersion=banana".into(), 400, 0),
        ("limit=-1".into(), 400, 0),
    ] {
        let (got, list) = lab.get(&format!("{PODS}?{query}")).await;
        assert_eq!(got, code, "{query}: {list}");
        if code == 200 {
            assert_eq!(names(&list).len(), items, "{query}");
        }
    }
}

#[tokio::test]
async fn a_list_not_older_than_a_future_version_waits_for_it() {
    let lab = three_pods().await;
    let path =
        format!("{PODS}?resourceVersion={}&resourceVersionMatch=NotOlderThan", lab.store.revision() + 1);
    let waiting = lab.get(&path);
    let (answer, _) = tokio::join!(waiting, async { lab.store.apply(pod("d")).unwrap() });
    assert_eq!(names(&answer.1).len(), 4);
}

#[tokio::test]
async fn lists_are_scoped_and_selected() {
    let lab = three_pods().await;
    let mut other = pod("z");
    other["metadata"]["namespace"] = "other".into();
    other["status"]["phase"] = "Failed".into();
    lab.store.apply(other).unwrap();
    for (path, expected) in [
        ("/api/v1/pods", vec!["a", "b", "c", "z"]),
        ("/api/v1/namespaces/other/pods", vec!["z"]),
        ("/api/v1/pods?fieldSelector=status.phase%21%3DFailed%2Cspec.nodeName%3Dnode-a", vec!["a", "b", "c"]),
        ("/api/v1/pods?fieldSelector=metadata.name%3Db", vec!["b"]),
        ("/api/v1/pods?labelSelector=app+in+%28a%2Cc%29", vec!["a", "c"]),
        ("/api/v1/namespaces/nowhere/pods", vec![]),
    ] {
        assert_eq!(names(&lab.get(path).await.1), expected, "{path}");
    }
    assert_eq!(lab.get("/api/v1/pods?fieldSelector=spec.color%3Dred").await.0, 400);
}

#[tokio::test]
async fn the_server_advertises_field_validation() {
    let lab = Lab::start().await;
    let (_, root) = lab.get("/openapi/v3").await;
    for (group, plural) in [("api/v1", "pods"), ("apis/discovery.k8s.io/v1", "endpointslices")] {
        let (code, document) = lab.get(root["paths"][group]["serverRelativeURL"].as_str().unwrap()).await;
        let patch = &document["paths"][format!("/{plural}/{{name}}")]["patch"];
        assert_eq!((code, &patch["parameters"][0]["name"]), (200, &json!("fieldValidation")), "{document}");
    }
}

#[tokio::test]
async fn a_wrong_token_is_unauthorized() {
    let lab = Lab::start().await;
    let mut config: serde_json::Value = serde_json::from_str(&lab.server.kubeconfig()).unwrap();
    config["users"][0]["user"]["token"] = "wrong".into();
    let intruder = Lab { client: connect(&config.to_string()).await, ..lab };
    let (code, status) = intruder.get(PODS).await;
    assert_eq!((code, &status["kind"]), (401, &json!("Status")));
}
