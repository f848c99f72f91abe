//! Tests of the protocol against a server that the tests play. Time is paused: waits end at once
//! and in order.

mod fresh;
mod fuzz;
mod limits;
mod mock;
mod narrow;
mod narrowing;
mod relist;

use super::start;
use epguard_core::facts::Watched;
pub(super) use mock::Server;
use mock::{Rig, pod};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// The clock that dates proofs here.
pub(super) fn boot() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_becomes_one_reset_and_then_changes_as_they_come() {
    let mut rig = Rig::new();
    let call = rig.called("stream").await;
    assert_eq!(call.param("resourceVersion"), None);
    assert_eq!(call.param("resourceVersionMatch"), Some("NotOlderThan"));
    assert_eq!(call.param("allowWatchBookmarks"), Some("true"));
    let mut stream = call.stream();
    stream.event("ADDED", &pod("a", 3)).await;
    stream.event("ADDED", &pod("b", 4)).await;
    stream.event("ADDED", &pod("c", 5)).await;
    stream.event("MODIFIED", &pod("a", 6)).await;
    stream.event("DELETED", &pod("b", 7)).await;
    assert_eq!(rig.told_meanwhile().await, None);
    stream.bookmark(7, true).await;
    rig.says(&["reset a c @7", "up"]).await;
    rig.relays(&mut stream, "MODIFIED", "a", 8).await;
    stream.bookmark(9, false).await;
    rig.says(&["progress @9"]).await;
    rig.relays(&mut stream, "DELETED", "a", 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_streams_no_lists_is_read_in_pages() {
    for code in [400, 422] {
        let mut rig = Rig::new();
        rig.server
            .call()
            .await
            .refuse(code, "sendInitialEvents is forbidden")
            .await;
        let call = rig.called("list").await;
        assert_eq!(
            (call.param("limit"), call.param("resourceVersion")),
            (Some("500"), None)
        );
        call.page(7, "more", &[pod("a", 3)]).await;
        let call = rig.server.call().await;
        assert_eq!(call.param("continue"), Some("more"));
        call.page(7, "", &[pod("b", 4)]).await;
        rig.says(&["reset a b @7"]).await;
        let _stream = rig.called("watch 7").await.stream();
        rig.says(&["up"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_pages_expire_is_read_in_one_answer() {
    let mut rig = Rig::new();
    rig.server.call().await.refuse(422, "no").await;
    rig.server
        .call()
        .await
        .page(7, "more", &[pod("a", 3)])
        .await;
    rig.server.call().await.refuse(410, "token expired").await;
    assert!(
        rig.message()
            .await
            .starts_with("down: cannot list pods: the server's history is gone")
    );
    for code in [429, 500] {
        let call = rig.server.call().await;
        assert_eq!(
            ["limit", "continue", "resourceVersion", "watch"].map(|name| call.param(name)),
            [None; 4]
        );
        call.refuse(code, "overloaded").await;
        assert!(rig.message().await.starts_with("down: cannot list pods: "));
    }
    rig.server.call().await.page(9, "", &[pod("b", 8)]).await;
    rig.says(&["reset b @9"]).await;
    rig.server.call().await.refuse(410, "too old").await;
    assert!(rig.message().await.starts_with("down: "));
    assert_eq!(
        rig.server.call().await.kind(),
        "list",
        "in pages, as the first one"
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_followed_by_a_reset() {
    let (mut rig, mut stream) = Rig::streaming().await;
    stream.error(410, "too old resource version").await;
    rig.says(&[
        "down: cannot watch pods: the server's history is gone (too old resource version); listing again",
    ])
    .await;
    let _stream = rig.listed(&[], 90).await;
    rig.says(&["reset  @90", "up"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_in_order_goes_on_without_a_reset() {
    let (mut rig, mut stream) = Rig::streaming().await;
    rig.relays(&mut stream, "MODIFIED", "a", 8).await;
    stream.send(r#"{"type":"MODIFIED","object":{"cut o"#).await;
    drop(stream);
    let mut stream = rig.called("watch 8").await.stream();
    rig.relays(&mut stream, "MODIFIED", "a", 9).await;
}

#[tokio::test(start_paused = true)]
async fn an_unparsable_object_or_annotation_is_reported_and_the_stream_goes_on() {
    let (mut rig, mut stream) = Rig::streaming().await;
    let wrong = r#"{"metadata":{"name":"b","namespace":"ns","resourceVersion":"8"},"spec":5}"#;
    stream.event("ADDED", wrong).await;
    assert!(rig.message().await.starts_with("skipped Pod ns/b: "));
    stream.send("{no json}\n").await;
    assert!(
        rig.message()
            .await
            .starts_with("skipped Pod: not a watch event: ")
    );
    rig.relays(&mut stream, "ADDED", "c", 9).await;
    let annotated = r#""annotations":{"epguard.io/mode":"of"},"uid""#;
    stream
        .event("ADDED", &pod("a", 10).replace(r#""uid""#, annotated))
        .await;
    let message = rig.message().await;
    assert!(
        message.starts_with("skipped Pod ns/a: annotation epguard.io/mode: \"of\""),
        "{message}"
    );
    rig.says(&["applied a @10"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_is_gone_whatever_of_its_last_state_cannot_be_read() {
    let (mut rig, mut stream) = Rig::streaming().await;
    for (version, has_uid) in [(8, true), (9, false)] {
        let wrong = pod("a", version).replace("}}", r#"},"spec":5}"#);
        stream
            .event(
                "DELETED",
                &if has_uid {
                    wrong
                } else {
                    wrong.replace(r#""uid""#, r#""id""#)
                },
            )
            .await;
        assert!(rig.message().await.starts_with("skipped Pod ns/a: "));
        if has_uid {
            rig.says(&["gone a @8"]).await;
        }
    }
    rig.relays(&mut stream, "DELETED", "c", 10).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_list_that_does_not_parse_costs_only_itself() {
    let mut rig = Rig::new();
    rig.server.call().await.refuse(422, "no").await;
    let items = ["7".to_owned(), pod("a", 3)];
    rig.server.call().await.page(7, "", &items).await;
    assert!(
        rig.message()
            .await
            .starts_with("skipped Pod without a name: ")
    );
    rig.says(&["reset a @7"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_line_counts_when_its_last_chunk_has_arrived() {
    let (mut rig, mut stream) = Rig::streaming().await;
    let line = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", pod("a", 8));
    let (first, rest) = line.split_at(40);
    stream.send(first).await;
    assert_eq!(rig.told_meanwhile().await, None);
    let (middle, end) = rest.split_at(rest.len() - 1);
    stream.send(middle).await;
    assert_eq!(rig.told_meanwhile().await, None);
    stream
        .send(&format!("{end}{}", line.replace("\"8\"", "\"9\"")))
        .await;
    assert_eq!(rig.told_meanwhile().await.as_deref(), Some("applied a @8"));
    assert_eq!(rig.told_meanwhile().await.as_deref(), Some("applied a @9"));
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_watch_is_reported_with_its_remedy_and_tried_again() {
    let mut rig = Rig::new();
    for _ in 0..2 {
        rig.server
            .call()
            .await
            .refuse(403, "pods is forbidden")
            .await;
        assert_eq!(
            rig.message().await,
            "down: cannot watch pods: forbidden (pods is forbidden); bind the agent's account to a ClusterRole \
             with apiGroups [\"\"], resources [\"pods\"], verbs [\"list\", \"watch\"]"
        );
    }
    rig.called("stream").await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_and_a_watch_that_does_not_begin_are_reported_and_resumed() {
    let (mut rig, stream) = Rig::streaming().await;
    drop(stream);
    drop(rig.called("watch 7").await);
    rig.says(&["down: cannot watch pods: no usable answer from the API server (connection reset); retrying"])
        .await;
    let _unanswered = rig.called("watch 7").await;
    assert!(
        rig.message()
            .await
            .starts_with("down: cannot watch pods: no usable answer")
    );
    let _stream = rig.called("watch 7").await.stream();
    rig.says(&["up"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_closed() {
    let (mut rig, _silent) = Rig::streaming().await;
    let since = tokio::time::Instant::now();
    rig.says(&["down: cannot watch pods: neither event nor bookmark for 90 s; connecting again"])
        .await;
    assert_eq!(since.elapsed().as_secs(), 90);
    rig.called("watch 7").await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_watches_five_collections_in_whole() {
    let (client, mut server) = Server::new();
    let (tx, _messages) = mpsc::channel(1);
    let _tasks = start(&client, boot, "n1", None, &tx);
    let mut asked = Vec::new();
    for _ in Watched::ALWAYS {
        let call = server.call().await;
        assert_eq!(call.param("fieldSelector"), None);
        asked.push(call.path().to_owned());
    }
    asked.sort();
    let expected = [
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/services",
        "/apis/discovery.k8s.io/v1/endpointslices",
    ];
    assert_eq!(asked, expected);
}
