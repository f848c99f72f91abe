use serde_json::{Value, json};

use super::{Lab, pod};
use crate::api::{Kind, Store};

fn recorded(event_type: &str, name: &str, rv: u64) -> Value {
    let mut object = pod(name);
    object["metadata"]["resourceVersion"] = rv.to_string().into();
    object["metadata"]["uid"] = format!("uid-of-{name}").into();
    object["metadata"]["managedFields"] = json!([{"manager": "kubelet", "operation": "Update"}]);
    json!({"type": event_type, "object": object})
}

fn bookmark(rv: u64) -> Value {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let meta = json!({"resourceVersion": rv.to_string(), "annotations": annotations});
    json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": meta}})
}

async fn lab() -> Lab {
    let store = Store::recording();
    for event in [recorded("ADDED", "a", 279), recorded("ADDED", "b", 209), bookmark(289)] {
        store.ingest(&event).unwrap();
    }
    Lab::serve(store).await
}

#[tokio::test]
async fn a_recording_is_listed_and_watched_exactly_as_it_was() {
    let lab = lab().await;
    let (_, list) = lab.get("/api/v1/pods").await;
    assert_eq!(list["metadata"]["resourceVersion"], "289");
    assert_eq!(list["items"][1], recorded("ADDED", "b", 209)["object"]);
    let mut stream = lab.watch("/api/v1/pods", "resourceVersion=289").await;
    for event in [recorded("ADDED", "c", 301), recorded("MODIFIED", "a", 305), recorded("DELETED", "a", 306)]
    {
        lab.store.ingest(&event).unwrap();
        assert_eq!(stream.next().await, Ok(Some(event)));
    }
    assert_eq!(super::names(&lab.get("/api/v1/pods").await.1), ["b", "c"]);
}

#[tokio::test]
async fn each_kind_of_a_recording_progresses_on_its_own() {
    let lab = lab().await;
    assert_eq!((lab.store.resource_version(Kind::Pod), lab.store.resource_version(Kind::Service)), (289, 1));
    assert_eq!(lab.get("/api/v1/services").await.1["metadata"]["resourceVersion"], "1");
}

#[tokio::test]
async fn an_object_that_is_stored_already_is_not_sent_again() {
    let lab = lab().await;
    let mut stream = lab.watch("/api/v1/pods", "resourceVersion=289").await;
    lab.store.ingest(&recorded("ADDED", "a", 279)).unwrap();
    lab.store.ingest(&recorded("ADDED", "c", 290)).unwrap();
    assert_eq!(stream.line().await, "ADDED c 290");
}

#[tokio::test]
async fn objects_that_a_reopened_stream_does_not_show_are_deleted() {
    let lab = lab().await;
    let mut stream = lab.watch("/api/v1/pods", "resourceVersion=289").await;
    lab.store.reopen(Kind::Pod);
    for event in [recorded("ADDED", "b", 209), recorded("ADDED", "c", 300), bookmark(310)] {
        lab.store.ingest(&event).unwrap();
    }
    assert_eq!(stream.line().await, "ADDED c 300");
    assert_eq!(stream.line().await, "DELETED a 310");
    assert_eq!(super::names(&lab.get("/api/v1/pods").await.1), ["b", "c"]);
}

#[test]
fn a_malformed_recorded_event_is_refused() {
    let store = Store::recording();
    let error = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}});
    let unknown = recorded("RENAMED", "a", 9);
    for event in [error, unknown, json!(null), json!({"type": "ADDED", "object": "text"})] {
        assert_eq!(store.ingest(&event).unwrap_err().code, 400, "{event}");
    }
    assert_eq!(Store::new().ingest(&recorded("ADDED", "a", 9)).unwrap_err().code, 400);
}
