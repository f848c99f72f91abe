//! Tests of what proves a watch fresh, and what doesn't.

use super::mock::{Rig, pod};
use crate::watch::tests::boot;
use epguard_core::facts::Watched::Pods;
use epguard_core::freshness::Proof::{FreshnessCheck, List};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Asks for a freshness check and answers it at a version, with one object (of version 3) of many.
async fn check_at(rig: &mut Rig, version: u64) {
    rig.watches.check_freshness(Pods, Duration::ZERO);
    rig.called("check")
        .await
        .page(version, "more", &[pod("a", 3)])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_proves_the_moment_of_its_request() {
    let mut rig = Rig::new();
    let call = rig.server.call().await;
    let asked = boot();
    let mut stream = call.stream();
    stream.bookmark(7, true).await;
    rig.says(&["reset  @7", "up"]).await;
    let (by, as_of) = rig.proofs[0];
    assert!(by == List && as_of <= asked, "{as_of:?} is after {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn neither_events_nor_bookmarks_prove_anything_alone() {
    let (mut rig, mut stream) = Rig::fresh().await;
    stream.bookmark(9, false).await;
    rig.says(&["progress @9"]).await;
    rig.relays(&mut stream, "MODIFIED", "a", 10).await;
    assert_eq!(rig.proven().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_freshness_check_is_a_consistent_list_and_proves_the_moment_when_it_was_sent() {
    let (mut rig, stream) = Rig::fresh().await;
    rig.watches.check_freshness(Pods, Duration::ZERO);
    let call = rig.checking().await;
    let sent = boot();
    assert_eq!(
        (call.kind().as_str(), call.path()),
        ("check", "/api/v1/pods")
    );
    assert_eq!(
        (call.param("resourceVersion"), call.param("watch")),
        (None, None)
    );
    assert_eq!(
        call.param("limit"),
        Some("2"),
        "one, and whether there is more"
    );
    call.page(50, "", &[pod("a", 3)]).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.told_meanwhile().await, None);
    let [(FreshnessCheck, as_of)] = rig.proofs[..] else {
        panic!("{:?}", rig.proofs)
    };
    assert!(as_of <= sent, "{as_of:?} is after {sent:?}");
    rig.proofs.clear();
    drop(stream);
    let _watch = rig.server.call().await.stream();
    assert_eq!(rig.proven().await, [], "nor is it behind when it goes down");
}

#[tokio::test(start_paused = true)]
async fn a_stream_behind_the_list_is_checked_by_its_later_events() {
    let (mut rig, mut stream) = Rig::fresh().await;
    check_at(&mut rig, 50).await;
    rig.relays(&mut stream, "MODIFIED", "b", 49).await;
    assert_eq!(rig.proven().await, []);
    stream.bookmark(50, false).await;
    rig.says(&["progress @50"]).await;
    assert_eq!(rig.proven().await, [FreshnessCheck]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_checked_by_an_empty_probe() {
    let (mut rig, _stream) = Rig::fresh().await;
    check_at(&mut rig, 50).await;
    let call = rig.called("probe 7").await;
    assert_eq!(call.param("allowWatchBookmarks"), Some("true"));
    let mut probe = call.stream();
    assert_eq!(rig.proven().await, []);
    probe.bookmark(51, false).await;
    assert_eq!(rig.proven().await, [FreshnessCheck]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_short_probe_is_reported() {
    let (mut rig, _stream) = Rig::streaming().await;
    check_at(&mut rig, 50).await;
    rig.server.call().await.stream().bookmark(49, false).await;
    let message = rig.message().await;
    assert!(
        message
            .starts_with("check failed: cannot watch pods: no bookmark reaches resourceVersion 50")
    );
    check_at(&mut rig, 60).await;
    rig.server.call().await.refuse(500, "overloaded").await;
    let message = rig.message().await;
    assert!(message.starts_with("check failed: cannot watch pods: "));
    assert_eq!(rig.proven().await, [List]);
}

#[tokio::test(start_paused = true)]
async fn a_full_list_that_lacks_an_object_of_the_stream_proves_nothing() {
    let (mut rig, mut stream) = Rig::fresh().await;
    rig.relays(&mut stream, "ADDED", "b", 8).await;
    let call = rig.checking().await;
    assert_eq!(call.param("limit"), Some("3"));
    call.page(50, "", &[pod("b", 8)]).await;
    assert_eq!(rig.proven().await, [], "the deletion of a is on its way");
    rig.relays(&mut stream, "DELETED", "a", 40).await;
    assert_eq!(rig.proven().await, [FreshnessCheck]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_behind_a_list_is_lost_and_resumed() {
    let (mut rig, _stuck) = Rig::streaming().await;
    rig.checking().await.page(50, "", &[pod("a", 12)]).await;
    let _probe = rig.server.call().await;
    let asked = Instant::now();
    rig.says(&["behind"]).await;
    assert!(
        asked.elapsed() <= Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(rig.message().await, "behind", "still, when it is given up");
    assert_eq!(
        rig.message().await,
        "down: cannot watch pods: a list shows resourceVersion 12, and the watch has stopped at 7; connecting again"
    );
    assert_eq!(rig.proven().await, [List]);
    rig.called("watch 7").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lacks_an_object_of_a_probe_may_catch_up_and_is_behind_at_once_if_it_goes_down()
 {
    for catches_up in [true, false] {
        let (mut rig, mut stream) = Rig::fresh().await;
        check_at(&mut rig, 50).await;
        let mut probe = rig.server.call().await.stream();
        probe.event("DELETED", &pod("b", 12)).await;
        probe.bookmark(51, false).await;
        assert_eq!(rig.proven().await, []);
        if catches_up {
            rig.relays(&mut stream, "DELETED", "b", 12).await;
            assert_eq!(rig.proven().await, [FreshnessCheck]);
        } else {
            let down = Instant::now();
            drop(stream);
            rig.says(&["behind"]).await;
            assert_eq!(down.elapsed(), Duration::ZERO);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_freshness_check_is_reported_and_the_stream_goes_on() {
    let (mut rig, mut stream) = Rig::streaming().await;
    rig.checking().await.refuse(500, "overloaded").await;
    rig.says(&[
        "check failed: cannot list pods: the API server answers 500 (overloaded); retrying",
    ])
    .await;
    rig.relays(&mut stream, "MODIFIED", "a", 8).await;
    assert_eq!(rig.proven().await, [List]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_down_is_checked_once_it_is_up() {
    let (mut rig, stream) = Rig::fresh().await;
    drop(stream);
    let call = rig.server.call().await;
    rig.watches.check_freshness(Pods, Duration::ZERO);
    assert_eq!(rig.proven().await, []);
    let _stream = call.stream();
    rig.called("check").await.page(7, "", &[pod("a", 3)]).await;
    assert_eq!(rig.proven().await, [FreshnessCheck]);
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_the_last_seen_version_resets_everything() {
    let (mut rig, mut stream) = Rig::streaming().await;
    let call = rig.checking().await;
    rig.relays(&mut stream, "MODIFIED", "a", 8).await;
    call.page(7, "", &[pod("a", 3)]).await;
    assert_eq!(
        rig.proven().await,
        [List, FreshnessCheck],
        "sent before 8 was seen"
    );
    rig.checking().await.page(5, "", &[pod("a", 3)]).await;
    let cause = "the API went back in time, from resourceVersion 8 to 5: was etcd restored? \
                 Everything is listed again";
    assert_eq!(rig.message().await, format!("rewound: {cause}"));
    assert_eq!(
        rig.message().await,
        format!("down: cannot watch pods: {cause}")
    );
    let _stream = rig.listed(&[], 5).await;
    assert_eq!(rig.message().await, "reset  @5", "message once");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_early_is_checked_against_a_server_that_went_back() {
    let (mut rig, stream) = Rig::streaming().await;
    drop(stream);
    let _waits_for_version_7 = rig.called("watch 7").await.stream();
    rig.called("check").await.page(5, "", &[]).await;
    let message = [
        rig.message().await,
        rig.message().await,
        rig.message().await,
    ];
    assert!(
        message
            .iter()
            .any(|message| message.starts_with("rewound: ")),
        "{message:?}"
    );
    rig.called("stream").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_on_time_is_resumed_without_a_freshness_check() {
    let (mut rig, mut stream) = Rig::streaming().await;
    for version in 8..13 {
        sleep(Duration::from_mins(1)).await;
        stream.bookmark(version, false).await;
    }
    drop(stream);
    let _stream = rig.called("watch 12").await.stream();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.server.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_after_a_list_is_checked_once_against_a_server_that_went_back() {
    let (mut rig, stream) = Rig::streaming().await;
    drop(stream);
    rig.server
        .call()
        .await
        .refuse(410, "too old resource version")
        .await;
    rig.server
        .call()
        .await
        .refuse(400, "sendInitialEvents is forbidden")
        .await;
    rig.server.call().await.page(9, "", &[pod("a", 8)]).await;
    let _stream = rig.called("watch 9").await.stream();
    rig.called("check").await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        rig.server.waiting(),
        0,
        "one question is left of each attempt"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_resource_version_has_not_advanced_proves_nothing_anew() {
    let (mut rig, _stream) = Rig::fresh().await;
    for version in [50, 50, 51] {
        rig.checking().await.page(version, "", &[pod("a", 3)]).await;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(rig.told_meanwhile().await, None);
    }
    let moments: Vec<Duration> = rig.proofs.iter().map(|(_, as_of)| *as_of).collect();
    assert!(
        moments[1] == moments[0] && moments[2] > moments[0],
        "{moments:?}"
    );
    check_at(&mut rig, 50).await;
    assert!(rig.message().await.starts_with("rewound: "), "it is older");
}
