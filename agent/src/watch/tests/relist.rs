//! Tests of one more consistent list while a stream continues.

use super::mock::{Rig, pod};
use epguard_core::facts::Watched::Pods;
use epguard_core::freshness::Proof::{Confirmation, List};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn events_during_a_list_are_applied_at_once_and_the_list_keeps_them() {
    let (mut rig, mut stream) = Rig::streaming().await;
    assert_eq!(rig.proven().await, [List]);
    rig.watches.relist(Pods, Duration::ZERO);
    let call = rig.server.call().await;
    assert_eq!(
        (call.kind().as_str(), call.param("resourceVersion")),
        ("list", None)
    );
    stream.event("MODIFIED", &pod("a", 8)).await;
    assert_eq!(rig.told().await, "applied a @8");
    stream.event("DELETED", &pod("a", 9)).await;
    assert_eq!(rig.told().await, "deleted a @9");
    stream.event("ADDED", &pod("b", 10)).await;
    assert_eq!(rig.told().await, "applied b @10");
    stream.event("ADDED", &pod("c", 11)).await;
    assert_eq!(rig.told().await, "applied c @11");
    call.page(10, "", &[pod("b", 10)]).await;
    assert_eq!(rig.told().await, "reset b c @11");
    assert_eq!(rig.proven().await, [List, Confirmation]);
}

#[tokio::test(start_paused = true)]
async fn a_list_newer_than_the_stream_is_applied_after_the_events_it_covers() {
    let (mut rig, mut stream) = Rig::streaming().await;
    rig.watches.relist(Pods, Duration::ZERO);
    rig.server.call().await.page(10, "", &[pod("b", 9)]).await;
    assert_eq!(rig.told_meanwhile().await, None);
    stream.event("DELETED", &pod("a", 8)).await;
    assert_eq!(rig.told().await, "deleted a @8", "no gap takes it away");
    stream.event("ADDED", &pod("b", 9)).await;
    assert_eq!(rig.told().await, "applied b @9");
    assert_eq!(rig.told().await, "reset b @10");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_lacks_an_object_of_a_list_is_behind_after_a_second() {
    let (mut rig, _stream) = Rig::streaming().await;
    rig.watches.relist(Pods, Duration::ZERO);
    rig.server.call().await.page(10, "", &[pod("b", 9)]).await;
    assert_eq!(rig.told().await, "behind");
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_beside_the_stream_is_repeated_and_the_stream_goes_on() {
    let (mut rig, mut stream) = Rig::streaming().await;
    rig.watches.relist(Pods, Duration::ZERO);
    rig.server.call().await.refuse(500, "overloaded").await;
    assert_eq!(
        rig.told().await,
        "unconfirmed: cannot list pods: the API server answers 500 (overloaded); retrying"
    );
    stream.event("MODIFIED", &pod("a", 8)).await;
    assert_eq!(rig.told().await, "applied a @8");
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "list");
    call.page(8, "", &[pod("a", 8)]).await;
    assert_eq!(rig.told().await, "reset a @8");
}

#[tokio::test(start_paused = true)]
async fn a_list_beside_the_stream_that_went_back_in_time_is_reported() {
    let (mut rig, _stream) = Rig::streaming().await;
    rig.watches.relist(Pods, Duration::ZERO);
    rig.server.call().await.page(5, "", &[]).await;
    let cause = "cannot watch pods: the API went back in time, from resourceVersion 7 to 5: was etcd restored? \
                 Everything is listed again";
    assert_eq!(rig.told().await, format!("rewound: {cause}"));
    assert_eq!(rig.told().await, format!("down: {cause}"));
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "stream");
}

#[tokio::test(start_paused = true)]
async fn a_list_beside_a_stream_that_ends_is_repeated_beside_the_next_one() {
    let (mut rig, stream) = Rig::streaming().await;
    rig.watches.relist(Pods, Duration::ZERO);
    rig.server.call().await.page(10, "", &[pod("b", 9)]).await;
    assert_eq!(rig.told_meanwhile().await, None, "the stream has not shown b");
    drop(stream);
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "watch 7");
    let mut stream = call.stream();
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "confirm");
    call.page(7, "", &[pod("a", 3)]).await;
    let ended = Instant::now();
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "list");
    assert!(ended.elapsed() >= Duration::from_secs(1), "{:?}", ended.elapsed());
    call.page(10, "", &[pod("b", 9)]).await;
    stream.event("DELETED", &pod("a", 8)).await;
    stream.event("ADDED", &pod("b", 9)).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|told| told != "reset b @10") {
        told.push(rig.told().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_streamed_list_replaces_an_ordered_list() {
    let (mut rig, stream) = Rig::streaming().await;
    rig.watches.relist(Pods, Duration::ZERO);
    rig.server.call().await.page(10, "", &[pod("b", 9)]).await;
    assert_eq!(rig.told_meanwhile().await, None);
    drop(stream);
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "watch 7");
    call.refuse(410, "too old resource version").await;
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "stream");
    let mut stream = call.stream();
    stream.bookmark(12, true).await;
    while rig.told().await != "up" {}
    drop(stream);
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "watch 12");
    let _stream = call.stream();
    sleep(Duration::from_secs(10)).await;
    while rig.server.waiting() > 0 {
        assert_eq!(rig.server.call().await.kind(), "confirm", "one list is enough");
    }
}
