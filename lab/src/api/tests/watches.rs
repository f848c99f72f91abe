use std::time::Duration;

use serde_json::json;

use super::{Lab, pod};
use crate::api::ObjectRef;

const PODS: &str = "/api/v1/pods";

fn finish(lab: &Lab, name: &str) -> u64 {
    lab.store.patch(&ObjectRef::pod("ns", name), &json!({"status": {"phase": "Failed"}})).unwrap();
    lab.store.revision()
}

#[tokio::test]
async fn a_watch_goes_on_after_its_resource_version() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let start = lab.store.revision();
    lab.store.apply(pod("b")).unwrap();
    let mut stream = lab.watch(PODS, &format!("resourceVersion={start}")).await;
    assert_eq!(stream.line().await, format!("ADDED b {}", start + 1));
    let rv = finish(&lab, "a");
    assert_eq!(stream.line().await, format!("MODIFIED a {rv}"));
    lab.store.remove(&ObjectRef::pod("ns", "b")).unwrap();
    assert_eq!(stream.line().await, format!("DELETED b {}", rv + 1));
}

#[tokio::test]
async fn a_watch_without_a_resource_version_begins_with_the_state() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let rv = lab.store.revision();
    for query in ["", "resourceVersion=0", "resourceVersion="] {
        let mut stream = lab.watch(PODS, query).await;
        assert_eq!(stream.line().await, format!("ADDED a {rv}"), "{query}");
    }
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let lab = Lab::start().await;
    lab.store.apply(pod("b")).unwrap();
    lab.store.apply(pod("a")).unwrap();
    let rv = lab.store.revision();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut stream = lab.watch(PODS, query).await;
    assert_eq!(stream.line().await, format!("ADDED a {rv}"));
    assert_eq!(stream.line().await, format!("ADDED b {}", rv - 1));
    let bookmark = stream.next().await.unwrap().unwrap();
    assert_eq!(
        bookmark,
        json!({"type": "BOOKMARK", "object": {
            "kind": "Pod", "apiVersion": "v1", "spec": {"containers": null}, "status": {},
            "metadata": {"resourceVersion": rv.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}},
        }})
    );
    lab.store.apply(pod("c")).unwrap();
    assert_eq!(stream.line().await, format!("ADDED c {}", rv + 1));
    for bad in ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan&resourceVersion=1"] {
        assert_eq!(lab.get(&format!("{PODS}?watch=1&{bad}")).await.0, 422, "{bad}");
    }
}

#[tokio::test]
async fn objects_enter_and_leave_a_selector() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let start = lab.store.revision();
    let mut running =
        lab.watch(PODS, &format!("resourceVersion={start}&fieldSelector=status.phase%3DRunning")).await;
    let mut failed =
        lab.watch(PODS, &format!("resourceVersion={start}&fieldSelector=status.phase%3DFailed")).await;
    let rv = finish(&lab, "a");
    let left = running.next().await.unwrap().unwrap();
    assert_eq!((&left["type"], &left["object"]["status"]["phase"]), (&json!("DELETED"), &json!("Running")));
    assert_eq!(left["object"]["metadata"]["resourceVersion"], rv.to_string());
    assert_eq!(failed.line().await, format!("ADDED a {rv}"));
    lab.store.remove(&ObjectRef::pod("ns", "a")).unwrap();
    assert_eq!(failed.line().await, format!("DELETED a {}", rv + 1));
    lab.store.apply(pod("b")).unwrap();
    assert_eq!(
        running.line().await,
        format!("ADDED b {}", rv + 2),
        "the removal of a was none of its business"
    );
}

#[tokio::test]
async fn a_namespaced_watch_sees_its_namespace_only() {
    let lab = Lab::start().await;
    let mut stream = lab.watch("/api/v1/namespaces/ns/pods", "").await;
    let mut other = pod("x");
    other["metadata"]["namespace"] = "other".into();
    lab.store.apply(other).unwrap();
    lab.store.apply(pod("a")).unwrap();
    assert_eq!(stream.line().await, format!("ADDED a {}", lab.store.revision()));
}

#[tokio::test]
async fn a_bookmark_comes_two_seconds_before_a_stream_times_out() {
    let lab = Lab::start().await;
    let begun = std::time::Instant::now();
    let mut stream = lab.watch(PODS, "allowWatchBookmarks=true&timeoutSeconds=3").await;
    let mut line = stream.line().await;
    while line == "silent" {
        line = stream.line().await;
    }
    assert_eq!(line, format!("BOOKMARK - {}", lab.store.revision()));
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn bookmarks_have_the_version_of_the_stream() {
    let lab = Lab::start().await;
    lab.server.faults(|f| f.bookmark_period = Some(Duration::from_millis(20)));
    let mut without = lab.watch(PODS, "").await;
    let mut stream = lab.watch(PODS, "allowWatchBookmarks=true").await;
    let rv = lab.store.revision();
    assert_eq!(stream.line().await, format!("BOOKMARK - {rv}"));
    lab.store.advance();
    while stream.line().await != format!("BOOKMARK - {}", rv + 1) {}
    lab.server.faults(|f| f.bookmark_period = None);
    while stream.line().await != "silent" {}
    assert_eq!(without.line().await, "silent");
}

#[tokio::test]
async fn compaction_expires_new_watches_and_leaves_open_ones() {
    let lab = Lab::start().await;
    let start = lab.store.revision();
    let mut open = lab.watch(PODS, &format!("resourceVersion={start}")).await;
    lab.store.apply(pod("a")).unwrap();
    lab.store.forget_history();
    assert_eq!(open.line().await, format!("ADDED a {}", start + 1));
    let event = lab.watch(PODS, &format!("resourceVersion={start}")).await.next().await.unwrap().unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!((&event["object"]["kind"], &event["object"]["reason"]), (&json!("Status"), &json!("Expired")));
    let mut current = lab.watch(PODS, &format!("resourceVersion={}", start + 1)).await;
    lab.store.apply(pod("b")).unwrap();
    assert_eq!(current.line().await, format!("ADDED b {}", start + 2));
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout() {
    let lab = Lab::start().await;
    assert_eq!(lab.watch(PODS, "timeoutSeconds=1").await.line().await, "END");
}
