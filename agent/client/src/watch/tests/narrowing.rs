//! Tests of watches of one object, alone or of a large collection.

use super::mock::{Rig, Stream, pod};
use crate::watch::session::AGAIN;
use epguard_core::facts::ObjectName;
use epguard_core::freshness::Proof::{FreshnessCheck, List};
use std::time::Duration;
use tokio::time::Instant;

/// Two objects are listed at version 7; `b` is watched alone.
async fn narrow() -> (Rig, Stream) {
    let mut rig = Rig::narrowed("b", 1);
    let _stream = rig.listed(&[("a", 3), ("b", 4)], 7).await;
    rig.says(&["reset a b @7"]).await;
    let call = rig.server.call().await;
    assert_eq!(
        (call.kind().as_str(), call.param("fieldSelector")),
        ("watch 7", Some("metadata.name%3Db"))
    );
    let stream = call.stream();
    rig.says(&["up"]).await;
    (rig, stream)
}

#[tokio::test(start_paused = true)]
async fn of_a_large_collection_one_object_is_watched_and_checked() {
    let (mut rig, mut stream) = narrow().await;
    rig.relays(&mut stream, "MODIFIED", "b", 9).await;
    let call = rig.checking().await;
    assert_eq!(call.param("fieldSelector"), Some("metadata.name%3Db"));
    call.page(20, "", &[pod("b", 9)]).await;
    assert_eq!(rig.proven().await, [List, FreshnessCheck]);
}

#[tokio::test(start_paused = true)]
async fn a_large_collection_is_listed_again_after_an_hour_or_so() {
    let (mut rig, mut stream) = narrow().await;
    let begun = Instant::now();
    let call = loop {
        tokio::select! {
            call = rig.server.call() => match call.kind().as_str() {
                "stream" => break call,
                "check" => call.page(7, "", &[pod("b", 4)]).await,
                _ => stream = call.stream(),
            },
            () = tokio::time::sleep(Duration::from_mins(1)) => stream.bookmark(8, false).await,
        }
        while rig.told_meanwhile().await.is_some() {}
    };
    let took = begun.elapsed();
    assert!(AGAIN / 2 <= took && took <= AGAIN * 2, "{took:?}");
    assert_eq!(call.param("fieldSelector"), None);
    let mut all = call.stream();
    all.event("ADDED", &pod("b", 4)).await;
    all.bookmark(9, true).await;
    rig.says(&["reset b @9"]).await;
    all.event("ADDED", &pod("a", 10)).await;
    assert_eq!(
        rig.message().await,
        "applied a @10",
        "one object is no large collection"
    );
}

#[tokio::test(start_paused = true)]
async fn a_small_collection_is_watched_whole() {
    let mut rig = Rig::narrowed("b", 2);
    let mut stream = rig.listed(&[("a", 3), ("b", 4)], 7).await;
    rig.says(&["reset a b @7", "up"]).await;
    rig.relays(&mut stream, "MODIFIED", "a", 8).await;
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_grows_large_is_narrowed_without_a_list() {
    let mut rig = Rig::narrowed("b", 1);
    let mut stream = rig.listed(&[("b", 3)], 7).await;
    rig.says(&["reset b @7", "up"]).await;
    rig.relays(&mut stream, "MODIFIED", "b", 8).await;
    rig.relays(&mut stream, "ADDED", "a", 9).await;
    let call = rig.server.call().await;
    assert_eq!(
        (call.kind().as_str(), call.param("fieldSelector")),
        ("watch 9", Some("metadata.name%3Db"))
    );
    let _stream = call.stream();
    let call = rig.server.call().await;
    assert_eq!(call.param("fieldSelector"), Some("metadata.name%3Db"));
    call.page(20, "", &[pod("b", 8)]).await;
    assert_eq!(rig.proven().await, [List, FreshnessCheck]);
}

#[tokio::test(start_paused = true)]
async fn the_watch_of_one_object_is_checked_by_that_object_alone() {
    let mut rig = Rig::watching(&ObjectName::new("ns", "a"));
    let mut stream = rig.listed(&[("a", 3)], 7).await;
    rig.says(&["reset a @7", "up"]).await;
    stream.event("MODIFIED", "3").await;
    assert!(rig.message().await.starts_with("skipped "));
    let call = rig.checking().await;
    assert_eq!(
        (call.path(), call.param("fieldSelector")),
        ("/api/v1/namespaces/ns/pods", Some("metadata.name%3Da"))
    );
}
