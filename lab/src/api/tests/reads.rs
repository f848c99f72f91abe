//! Lists, watches and discovery.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Lab, PODS, connect, failed, names, pod};
use crate::api::ObjectRef;

#[tokio::test]
async fn pages_show_one_snapshot_until_its_history_is_dropped() {
    let lab = Lab::with(&["a", "b", "c"]).await;
    let (_, first) = lab.get(&format!("{PODS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    lab.remove("c");
    lab.store.apply(pod("d")).unwrap();
    let next = format!(
        "{PODS}?limit=2&continue={}",
        first["metadata"]["continue"].as_str().unwrap()
    );
    let (_, second) = lab.get(&next).await;
    assert_eq!(names(&second), ["c"]);
    assert_eq!(
        second["metadata"],
        json!({"resourceVersion": first["metadata"]["resourceVersion"]})
    );
    assert_eq!(names(&lab.get(PODS).await.1), ["a", "b", "d"]);
    lab.store.forget_history();
    let (code, status) = lab.get(&next).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn queries_are_handled_as_the_api_documents() {
    let lab = Lab::with(&["a", "b", "c"]).await;
    lab.store.apply(failed("z")).unwrap();
    let not_older = "resourceVersionMatch=NotOlderThan";
    for (query, code, expected) in [
        ("", 200, "abcz"),
        ("resourceVersion=0", 200, "abcz"),
        ("resourceVersion=302", 200, "abcz"),
        (&format!("resourceVersion=302&{not_older}"), 200, "abcz"),
        (&format!("resourceVersion=305&{not_older}"), 504, ""),
        (
            "fieldSelector=status.phase%3DRunning%2Cspec.nodeName%3Dnode-a",
            200,
            "abc",
        ),
        ("fieldSelector=metadata.name%3Db", 200, "b"),
        ("labelSelector=app+in+%28a%2Cc%29", 200, "ac"),
        ("fieldSelector=spec.color%3Dred", 400, ""),
        ("resourceVersionMatch=Exact", 400, ""),
        ("resourceVersion=banana", 400, ""),
        ("limit=-1", 400, ""),
        ("continue=banana", 400, ""),
        ("watch=1&sendInitialEvents=true", 422, ""),
        (&format!("watch=1&{not_older}&resourceVersion=1"), 422, ""),
    ] {
        let (got, list) = lab.get(&format!("{PODS}?{query}")).await;
        assert_eq!(got, code, "{query}: {list}");
        assert!(
            code != 200 || names(&list).concat() == expected,
            "{query}: {list}"
        );
    }
    for (namespace, expected) in [("ns", "abc"), ("other", "z"), ("nowhere", "")] {
        let (_, list) = lab
            .get(&format!("/api/v1/namespaces/{namespace}/pods"))
            .await;
        assert_eq!(names(&list).concat(), expected);
    }
    let path = format!("{PODS}?resourceVersion=305&{not_older}");
    let (waited, _) = tokio::join!(lab.get(&path), async { lab.store.apply(pod("d")).unwrap() });
    assert_eq!(names(&waited.1).concat(), "abcdz");
}

#[tokio::test]
async fn the_server_answers_holders_of_its_token_alone() {
    let lab = Lab::with(&[]).await;
    let mut config: Value = serde_json::from_str(&lab.server.kubeconfig()).unwrap();
    config["users"][0]["user"]["token"] = "wrong".into();
    let intruder = Lab {
        client: connect(&config.to_string()).await,
        ..lab
    };
    let (code, status) = intruder.get(PODS).await;
    assert_eq!((code, &status["kind"]), (401, &json!("Status")));
}

#[tokio::test]
async fn a_watch_begins_with_the_state_or_after_its_resource_version() {
    let lab = Lab::with(&["a"]).await;
    for query in ["", "resourceVersion=0", "resourceVersion="] {
        lab.watch(PODS, query).await.expect(&["ADDED a 301"]).await;
    }
    let mut all = lab.watch(PODS, "resourceVersion=301").await;
    let mut namespaced = lab
        .watch("/api/v1/namespaces/ns/pods", "resourceVersion=301")
        .await;
    lab.store.apply(failed("z")).unwrap();
    lab.store.apply(pod("b")).unwrap();
    lab.store
        .patch(
            &ObjectRef::pod("ns", "a"),
            &json!({"status": {"phase": "Failed"}}),
        )
        .unwrap();
    lab.remove("b");
    all.expect(&[
        "ADDED z 302",
        "ADDED b 303",
        "MODIFIED a 304",
        "DELETED b 305",
    ])
    .await;
    namespaced
        .expect(&["ADDED b 303", "MODIFIED a 304", "DELETED b 305"])
        .await;
    lab.watch(PODS, "timeoutSeconds=1&resourceVersion=305")
        .await
        .expect(&["END"])
        .await;
}

#[tokio::test]
async fn a_watch_from_a_later_resource_version_begins_there() {
    let lab = Lab::with(&[]).await;
    lab.server
        .faults(|f| f.bookmark_period = Some(Duration::from_millis(20)));
    let mut stream = lab
        .watch(PODS, "allowWatchBookmarks=true&resourceVersion=302")
        .await;
    lab.store.apply(pod("a")).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    lab.store.advance();
    stream.expect(&["BOOKMARK - 302"]).await;
    lab.store.apply(pod("b")).unwrap();
    let mut line = stream.line().await;
    while line == "BOOKMARK - 302" {
        line = stream.line().await;
    }
    assert_eq!(line, "ADDED b 303");
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let lab = Lab::with(&["b", "a"]).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut stream = lab.watch(PODS, query).await;
    stream.expect(&["ADDED a 302", "ADDED b 301"]).await;
    let metadata =
        json!({"resourceVersion": "302", "annotations": {"k8s.io/initial-events-end": "true"}});
    let typed = json!({"containers": null});
    let object = json!({"kind": "Pod", "apiVersion": "v1", "spec": typed, "status": {}, "metadata": metadata});
    assert_eq!(
        stream.next().await,
        Ok(json!({"type": "BOOKMARK", "object": object}))
    );
    lab.store.apply(pod("c")).unwrap();
    stream.expect(&["ADDED c 303"]).await;
}

#[tokio::test]
async fn objects_enter_and_leave_a_selector() {
    let lab = Lab::with(&["a"]).await;
    let query = |phase| format!("resourceVersion=301&fieldSelector=status.phase%3D{phase}");
    let mut running = lab.watch(PODS, &query("Running")).await;
    let mut failed = lab.watch(PODS, &query("Failed")).await;
    lab.store
        .patch(
            &ObjectRef::pod("ns", "a"),
            &json!({"status": {"phase": "Failed"}}),
        )
        .unwrap();
    lab.remove("a");
    lab.store.apply(pod("b")).unwrap();
    let left = running.next().await.unwrap();
    assert_eq!(
        (&left["type"], &left["object"]["status"]["phase"]),
        (&json!("DELETED"), &json!("Running"))
    );
    assert_eq!(left["object"]["metadata"]["resourceVersion"], "302");
    running.expect(&["ADDED b 304"]).await;
    failed.expect(&["ADDED a 302", "DELETED a 303"]).await;
}

#[tokio::test]
async fn bookmarks_have_the_version_of_the_stream_and_come_before_its_end() {
    let lab = Lab::with(&[]).await;
    let begun = Instant::now();
    let mut ending = lab
        .watch(PODS, "allowWatchBookmarks=true&timeoutSeconds=3")
        .await;
    while ending.line().await != "BOOKMARK - 300" {}
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "two seconds before the end"
    );
    lab.server
        .faults(|f| f.bookmark_period = Some(Duration::from_millis(20)));
    let mut without = lab.watch(PODS, "").await;
    let mut stream = lab.watch(PODS, "allowWatchBookmarks=true").await;
    stream.expect(&["BOOKMARK - 300"]).await;
    lab.store.advance();
    while stream.line().await != "BOOKMARK - 301" {}
    lab.server
        .faults(|f| f.bookmark_period = Some(Duration::MAX));
    while stream.line().await != "silent" {}
    without.expect(&["silent"]).await;
}

#[tokio::test]
async fn compaction_expires_new_watches_and_leaves_open_ones() {
    let lab = Lab::with(&[]).await;
    let mut open = lab.watch(PODS, "resourceVersion=300").await;
    lab.store.apply(pod("a")).unwrap();
    lab.store.forget_history();
    open.expect(&["ADDED a 301"]).await;
    let event = lab
        .watch(PODS, "resourceVersion=300")
        .await
        .next()
        .await
        .unwrap();
    let status = &event["object"];
    let shown = [
        &event["type"],
        &status["code"],
        &status["kind"],
        &status["reason"],
    ];
    assert_eq!(
        shown,
        [
            &json!("ERROR"),
            &json!(410),
            &json!("Status"),
            &json!("Expired")
        ]
    );
    let mut current = lab.watch(PODS, "resourceVersion=301").await;
    lab.store.apply(pod("b")).unwrap();
    current.expect(&["ADDED b 302"]).await;
}
