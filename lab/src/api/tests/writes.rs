use serde_json::{Value, json};

use super::{Lab, POD, PODS, pod};
use crate::api::{Kind, ObjectRef};

const OF_NS: &str = "/api/v1/namespaces/ns/pods";

#[tokio::test]
async fn a_created_pod_is_stamped() {
    let lab = Lab::with(&[]).await;
    let (code, created) = lab.call("POST", OF_NS, &pod("a")).await;
    assert_eq!((code, &created["status"]), (201, &pod("a")["status"]));
    let meta = &created["metadata"];
    assert_eq!(
        (&meta["resourceVersion"], &meta["generation"]),
        (&json!("301"), &json!(1))
    );
    assert!(
        meta["uid"].is_string() && meta["creationTimestamp"].is_string(),
        "{meta}"
    );
    assert_eq!(lab.get(POD).await, (200, created));
    let (code, status) = lab.call("POST", OF_NS, &pod("a")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    assert_eq!(status["message"], "pods \"a\" already exists");
}

#[tokio::test]
async fn an_update_from_an_old_version_conflicts() {
    let lab = Lab::with(&["a"]).await;
    let read = lab.get(POD).await.1;
    lab.store
        .patch(
            &ObjectRef::pod("ns", "a"),
            &json!({"metadata": {"labels": {"x": "1"}}}),
        )
        .unwrap();
    let (code, status) = lab.call("PUT", POD, &read).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let patch = json!({"metadata": {"resourceVersion": "301", "labels": {"y": "2"}}});
    assert_eq!(lab.call("PATCH", POD, &patch).await.0, 409);
    let mut changed = lab.get(POD).await.1;
    changed["metadata"]["labels"]["x"] = "2".into();
    let (code, stored) = lab.call("PUT", POD, &changed).await;
    assert_eq!(
        (code, &stored["metadata"]["labels"]["x"]),
        (200, &json!("2"))
    );
    assert_eq!(
        lab.call("PUT", &format!("{OF_NS}/b"), &json!({})).await.0,
        404
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_sends_no_event() {
    let lab = Lab::with(&["a"]).await;
    let first = lab.get(POD).await.1;
    assert_eq!(lab.store.apply(pod("a")).unwrap(), first);
    assert_eq!(lab.call("PUT", POD, &first).await.1, first);
    assert_eq!(
        (lab.store.resource_version(Kind::Pod), lab.store.revision()),
        (301, 301)
    );
}

#[tokio::test]
async fn bad_bodies_get_an_error_and_no_panic() {
    let lab = Lab::with(&["a"]).await;
    let kind = json!({"kind": "Service", "metadata": {"name": "x"}});
    let namespace = json!({"metadata": {"name": "x", "namespace": "other"}});
    for (method, path, body, code) in [
        ("POST", OF_NS, json!([]), 422),
        ("POST", OF_NS, json!({"metadata": 7}), 422),
        ("POST", OF_NS, json!({"metadata": {}}), 422),
        ("POST", OF_NS, kind, 400),
        ("POST", OF_NS, namespace, 400),
        (
            "POST",
            OF_NS,
            json!({"metadata": {"name": "x", "resourceVersion": "7"}}),
            400,
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/pods?dryRun=All",
            json!({"metadata": {"name": "x"}}),
            400,
        ),
        ("PUT", POD, json!("banana"), 400),
        ("PUT", POD, json!({"metadata": []}), 400),
        (
            "PUT",
            POD,
            json!({"metadata": {"name": "a", "uid": "other"}}),
            409,
        ),
        ("POST", POD, json!({}), 405),
        ("DELETE", OF_NS, json!({}), 405),
        ("GET", "/api/v1/leases", Value::Null, 404),
    ] {
        let (got, status) = lab.call(method, path, &body).await;
        assert_eq!(
            (got, &status["kind"]),
            (code, &json!("Status")),
            "{method} {path} {body}: {status}"
        );
    }
    let metadata = [
        json!(7),
        Value::Null,
        json!({"name": "b"}),
        json!({"name": null}),
    ];
    for patch in [json!(7), json!([])]
        .into_iter()
        .chain(metadata.map(|meta| json!({"metadata": meta})))
    {
        assert_eq!(lab.call("PATCH", POD, &patch).await.0, 400, "{patch}");
    }
}

#[tokio::test]
async fn an_applied_object_is_made_or_merged_by_the_keys_of_its_lists() {
    let lab = Lab::with(&[]).await;
    let pod = |spec: Value| json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": spec});
    let first = pod(json!({"containers": [{"name": "x", "args": ["1", "2"]}]}));
    let second = pod(json!({"containers": [{"name": "x", "args": ["3"]}, {"name": "y"}]}));
    let both = json!([{"name": "x", "args": ["3"]}, {"name": "y"}]);
    let path = format!("{POD}?fieldManager=helm&force=true");
    assert_eq!(lab.call("APPLY", &path, &first).await.0, 201);
    let (code, applied) = lab.call("APPLY", &path, &second).await;
    assert_eq!((code, &applied["spec"]["containers"]), (200, &both));
    let other = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b"}});
    assert_eq!(lab.call("APPLY", POD, &other).await.0, 400);
    assert_eq!(
        lab.call("PATCH", &POD.replace("/a", "/b"), &other).await.0,
        404
    );
}

#[tokio::test]
async fn a_running_pod_gets_its_grace_and_goes_at_the_second_delete() {
    let lab = Lab::with(&["a"]).await;
    let mut stream = lab.watch(PODS, "resourceVersion=301").await;
    let (code, marked) = lab.call("DELETE", POD, &Value::Null).await;
    assert_eq!(
        (code, &marked["metadata"]["deletionGracePeriodSeconds"]),
        (200, &json!(7))
    );
    let again = lab.call("DELETE", POD, &Value::Null).await;
    assert_eq!(
        again.1, marked,
        "a second delete with the same grace changes nothing"
    );
    lab.call("DELETE", POD, &json!({"gracePeriodSeconds": 0}))
        .await;
    stream.expect(&["MODIFIED a 302"]).await;
    let last = &stream.next().await.unwrap()["object"]["metadata"];
    assert_eq!(last["deletionGracePeriodSeconds"], 0);
    let due = |meta: &Value| meta["deletionTimestamp"].as_str().unwrap().to_owned();
    assert!(
        due(last) < due(&marked["metadata"]),
        "shortened by the grace"
    );
    stream.expect(&["DELETED a 304"]).await;
    assert_eq!(lab.get(POD).await.0, 404);
}

#[tokio::test]
async fn a_forced_delete_shows_modified_then_deleted_and_a_removal_one_event() {
    let lab = Lab::with(&["a", "b"]).await;
    let mut stream = lab.watch(PODS, "resourceVersion=302").await;
    lab.call("DELETE", POD, &json!({"gracePeriodSeconds": 0}))
        .await;
    let modified = &stream.next().await.unwrap()["object"]["metadata"];
    assert_eq!(
        (
            &modified["deletionGracePeriodSeconds"],
            &modified["generation"]
        ),
        (&json!(0), &json!(2))
    );
    let deleted = &stream.next().await.unwrap()["object"];
    assert_eq!(deleted["metadata"]["resourceVersion"], "304");
    assert_eq!(deleted["status"]["phase"], "Running");
    lab.remove("b");
    stream.expect(&["DELETED b 305"]).await;
    let again = lab.store.remove(&ObjectRef::pod("ns", "b")).unwrap_err();
    assert_eq!(again.to_string(), "pods \"b\" not found (404 NotFound)");
}

#[test]
fn unbound_and_finished_pods_go_at_once() {
    let store = crate::api::Store::default();
    let target = ObjectRef::pod("ns", "a");
    for patch in [
        json!({"spec": {"nodeName": null}}),
        json!({"status": {"phase": "Succeeded"}}),
    ] {
        store.apply(pod("a")).unwrap();
        store.patch(&target, &patch).unwrap();
        store.delete(&target, None).unwrap();
        assert_eq!(store.get(&target), None, "{patch}");
    }
}
