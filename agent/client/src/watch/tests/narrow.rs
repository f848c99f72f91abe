//! Tests of narrow lists beside a stream, and of the narrowest.

use super::mock::{Call, Rig, Stream, pod};
use epguard_core::facts::Selection;
use epguard_core::facts::Watched::Pods;
use epguard_core::freshness::Proof::{FreshnessCheck, List};
use std::time::Duration;
use tokio::time::sleep;

pub(super) fn web() -> Selection {
    Selection::Labelled {
        namespace: "ns".into(),
        selector: [("app", "web")].into_iter().collect(),
        node: None,
    }
}

/// A watch with a narrow list that is asked for beside it.
pub(super) async fn asked() -> (Rig, Stream, Call) {
    let (mut rig, stream) = Rig::fresh().await;
    let call = ordered(&mut rig, web()).await;
    (rig, stream, call)
}

pub(super) fn order(rig: &Rig, selection: Selection) {
    rig.watches.list(Pods, Some(selection), Duration::ZERO);
}

pub(super) async fn ordered(rig: &mut Rig, selection: Selection) -> Call {
    order(rig, selection);
    rig.server.call().await
}

#[tokio::test(start_paused = true)]
async fn a_narrow_list_asks_for_the_selected_objects_and_for_a_consistent_answer() {
    let (_rig, _stream, call) = asked().await;
    assert_eq!(call.path(), "/api/v1/namespaces/ns/pods");
    let params = [
        "labelSelector",
        "fieldSelector",
        "resourceVersion",
        "watch",
        "limit",
    ];
    assert_eq!(
        params.map(|name| call.param(name)),
        [Some("app%3Dweb"), None, None, None, Some("100")]
    );
}

#[tokio::test(start_paused = true)]
async fn events_during_a_narrow_list_are_applied_at_once_and_the_list_leaves_them() {
    let (mut rig, mut stream, call) = asked().await;
    rig.relays(&mut stream, "MODIFIED", "a", 8).await;
    rig.relays(&mut stream, "ADDED", "b", 9).await;
    rig.relays(&mut stream, "DELETED", "a", 11).await;
    call.page(10, "", &[pod("a", 8), pod("b", 9)]).await;
    rig.says(&["part b, but a later @10"]).await;
    assert_eq!(rig.proven().await, [FreshnessCheck]);
}

#[tokio::test(start_paused = true)]
async fn a_narrow_list_newer_than_the_stream_waits_for_the_events_that_it_covers() {
    let (mut rig, mut stream, call) = asked().await;
    call.page(10, "", &[pod("b", 9)]).await;
    assert_eq!(rig.told_meanwhile().await, None);
    rig.relays(&mut stream, "DELETED", "a", 8).await;
    rig.relays(&mut stream, "ADDED", "b", 9).await;
    assert_eq!(
        rig.told_meanwhile().await,
        None,
        "an event between 9 and 10 may come"
    );
    stream.bookmark(10, false).await;
    rig.says(&["progress @10", "part b, but  later @10"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_list_beside_a_silent_stream_is_applied_after_a_probe() {
    let (mut rig, _stream, call) = asked().await;
    call.page(50, "", &[pod("a", 3)]).await;
    rig.called("probe 7")
        .await
        .stream()
        .bookmark(51, false)
        .await;
    rig.says(&["part a, but  later @50"]).await;
    assert_eq!(rig.server.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_narrow_list_that_fails_is_dropped_and_the_stream_goes_on() {
    for code in [410, 429, 500, 504] {
        let (mut rig, mut stream, call) = asked().await;
        call.refuse(code, "overloaded").await;
        assert!(
            rig.message()
                .await
                .starts_with("check failed: cannot list pods: ")
        );
        rig.relays(&mut stream, "MODIFIED", "a", 8).await;
        sleep(Duration::from_mins(1)).await;
        assert_eq!(
            rig.server.waiting(),
            0,
            "the main loop asks again, not the watch"
        );
        ordered(&mut rig, web())
            .await
            .page(8, "", &[pod("a", 8)])
            .await;
        rig.says(&["part a, but  later @8"]).await;
    }
}

/// Two narrow lists, of which the one that is sent first shows a later version than the other.
async fn crossed() -> (Rig, Stream) {
    let (mut rig, stream, first) = asked().await;
    let second = ordered(&mut rig, Selection::OnNode("n".into())).await;
    second.page(100, "", &[pod("a", 3)]).await;
    first.page(105, "", &[]).await;
    assert_eq!(rig.told_meanwhile().await, None);
    (rig, stream)
}

#[tokio::test(start_paused = true)]
async fn of_two_narrow_lists_only_the_one_that_the_stream_has_reached_is_applied() {
    let (mut rig, mut stream) = crossed().await;
    stream.bookmark(100, false).await;
    rig.says(&["progress @100", "part a, but  later @100"])
        .await;
    assert_eq!(rig.told_meanwhile().await, None, "101 to 105 may come");
    rig.relays(&mut stream, "DELETED", "a", 103).await;
    assert_eq!(rig.told_meanwhile().await, None);
    stream.bookmark(105, false).await;
    rig.says(&["progress @105", "part , but  later @105"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_later_one_of_two_narrow_lists_is_probed_once_the_stream_has_reached_the_other() {
    let (mut rig, mut stream) = crossed().await;
    stream.bookmark(100, false).await;
    rig.says(&["progress @100", "part a, but  later @100"])
        .await;
    let mut probe = rig.called("probe 100").await.stream();
    probe.event("DELETED", &pod("a", 103)).await;
    probe.bookmark(106, false).await;
    assert_eq!(rig.told_meanwhile().await, None, "the stream lacks 103");
    stream.event("DELETED", &pod("a", 103)).await;
    rig.says(&["deleted a @103", "part , but  later @105"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_narrow_list_that_went_back_in_time_is_reported() {
    let (mut rig, _stream, call) = asked().await;
    call.page(5, "", &[]).await;
    assert!(
        rig.message()
            .await
            .starts_with("rewound: the API went back in time")
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_lacks_an_object_of_a_narrow_list_is_behind_after_a_second() {
    let (mut rig, _stream, call) = asked().await;
    call.page(10, "", &[pod("b", 9)]).await;
    rig.says(&["behind"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_narrow_list_whose_stream_ends_first_is_requested_beside_the_next_one() {
    let (mut rig, stream, call) = asked().await;
    drop(stream);
    let next = rig.called("watch 7").await;
    drop(call);
    let _stream = next.stream();
    let (one, other) = (rig.server.call().await, rig.server.call().await);
    let (list, check) = if one.kind() == "check" {
        (other, one)
    } else {
        (one, other)
    };
    assert_eq!(
        (check.kind(), list.param("labelSelector")),
        ("check".into(), Some("app%3Dweb"))
    );
    list.page(7, "", &[pod("a", 3)]).await;
    rig.says(&["part a, but  later @7"]).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(rig.server.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_freshness_check_of_a_large_collection_reads_the_key_of_no_object() {
    let mut rig = Rig::new();
    let pods = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"].map(|name| (name, 3));
    let mut stream = rig.listed(&pods, 7).await;
    rig.says(&["reset a b c d e f g h i j k @7", "up"]).await;
    let call = rig.checking().await;
    assert_eq!(
        (
            call.path(),
            call.param("fieldSelector"),
            call.param("limit")
        ),
        (
            "/api/v1/namespaces/default/pods",
            Some("metadata.name%3Depguard-freshness-check"),
            Some("1")
        )
    );
    call.page(50, "", &[]).await;
    assert_eq!(
        rig.proven().await,
        [List],
        "an empty list is not the whole collection"
    );
    stream.bookmark(50, false).await;
    rig.says(&["progress @50"]).await;
    assert_eq!(rig.proven().await, [FreshnessCheck]);
}

#[tokio::test(start_paused = true)]
async fn narrow_lists_ordered_while_the_watch_is_down_are_spread_once_it_is_up() {
    let (mut rig, stream) = Rig::streaming().await;
    drop(stream);
    let next = rig.server.call().await;
    for number in 0..30 {
        let node = number.to_string().as_str().into();
        rig.watches
            .list(Pods, Some(Selection::OnNode(node)), Duration::from_secs(10));
    }
    sleep(Duration::from_secs(20)).await;
    assert_eq!(rig.server.waiting(), 0);
    let _stream = next.stream();
    let _check = rig.called("check").await;
    assert_eq!(rig.told_meanwhile().await, None);
    let up = tokio::time::Instant::now();
    let mut after = Vec::new();
    for _ in 0..30 {
        rig.server.call().await.page(7, "", &[]).await;
        assert!(rig.message().await.starts_with("part "));
        after.push(up.elapsed().as_secs_f64());
    }
    assert!(
        (2.0..8.0).contains(&after[15]) && after[29] <= 10.0,
        "{after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_narrow_list_under_way_is_not_requested_twice() {
    let (mut rig, _stream, call) = asked().await;
    order(&rig, web());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.server.waiting(), 0);
    call.page(7, "", &[pod("a", 3)]).await;
    rig.says(&["part a, but  later @7"]).await;
    let _call = ordered(&mut rig, web()).await;
    sleep(Duration::from_secs(30)).await;
    assert!(
        rig.message()
            .await
            .starts_with("check failed: cannot list pods: ")
    );
}
