use serde_json::{Value, json};

use super::{Lab, pod};
use crate::api::{ApiError, ObjectRef};

const POD: &str = "/api/v1/namespaces/ns/pods/a";

async fn lab_with(object: Value) -> (Lab, super::Stream, u64) {
    let lab = Lab::start().await;
    lab.store.apply(object).unwrap();
    let rv = lab.store.revision();
    let stream = lab.watch("/api/v1/pods", &format!("resourceVersion={rv}")).await;
    (lab, stream, rv)
}

#[tokio::test]
async fn a_running_pod_gets_its_grace_and_goes_at_the_second_delete() {
    let (lab, mut stream, rv) = lab_with(pod("a")).await;
    let (code, marked) = lab.call("DELETE", POD, "application/json", &Value::Null).await;
    assert_eq!((code, &marked["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(7)));
    assert_eq!(stream.line().await, format!("MODIFIED a {}", rv + 1));
    let due = marked["metadata"]["deletionTimestamp"].as_str().unwrap().to_string();
    let (_, again) = lab.call("DELETE", POD, "application/json", &Value::Null).await;
    assert_eq!(again, marked, "a second delete with the same grace changes nothing");

    lab.call("DELETE", POD, "application/json", &json!({"gracePeriodSeconds": 0})).await;
    let last = stream.next().await.unwrap().unwrap();
    assert_eq!(last["object"]["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(
        last["object"]["metadata"]["deletionTimestamp"].as_str().unwrap() < due.as_str(),
        "shortened by the grace"
    );
    assert_eq!(stream.line().await, format!("DELETED a {}", rv + 3));
    assert_eq!(lab.get(POD).await.0, 404);
}

#[tokio::test]
async fn a_forced_delete_shows_modified_then_deleted() {
    let (lab, mut stream, rv) = lab_with(pod("a")).await;
    lab.call("DELETE", &format!("{POD}?gracePeriodSeconds=0"), "", &Value::Null).await;
    let modified = stream.next().await.unwrap().unwrap();
    assert_eq!(modified["object"]["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(modified["object"]["metadata"]["generation"], 2);
    let deleted = stream.next().await.unwrap().unwrap();
    assert_eq!(deleted["object"]["metadata"]["resourceVersion"], (rv + 2).to_string());
    assert_eq!(deleted["object"]["status"]["phase"], "Running");
}

#[tokio::test]
async fn unbound_and_finished_pods_go_at_once() {
    for patch in [json!({"spec": {"nodeName": null}}), json!({"status": {"phase": "Succeeded"}})] {
        let lab = Lab::start().await;
        let target = ObjectRef::pod("ns", "a");
        lab.store.apply(pod("a")).unwrap();
        lab.store.patch(&target, &patch).unwrap();
        lab.store.delete(&target, None).unwrap();
        assert_eq!(lab.store.get(&target), None, "{patch}");
    }
}

#[tokio::test]
async fn a_removed_object_is_deleted_in_one_event() {
    let (lab, mut stream, rv) = lab_with(pod("a")).await;
    lab.store.remove(&ObjectRef::pod("ns", "a")).unwrap();
    assert_eq!(stream.line().await, format!("DELETED a {}", rv + 1));
    let again: ApiError = lab.store.remove(&ObjectRef::pod("ns", "a")).unwrap_err();
    assert_eq!(again.to_string(), "pods \"a\" not found (404 NotFound)");
}
