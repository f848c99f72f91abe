//! Narrow lists that are worth nothing, or would take too much; messages that the loop has no room
//! for.

use super::mock::{ROOM, Rig, pod};
use super::narrow::{asked, order, ordered};
use epguard_core::facts::Selection;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_narrow_list_with_a_pod_that_cannot_be_read_proves_nothing() {
    let (mut rig, _stream, call) = asked().await;
    let unreadable = r#"{"metadata":{"name":"b","namespace":"ns","uid":1,"resourceVersion":"4"}}"#;
    call.page(7, "", &[pod("a", 3), unreadable.to_owned()])
        .await;
    let error = rig.message().await;
    assert!(
        error.starts_with("check failed: ") && error.contains("ns/b cannot be read"),
        "{error}"
    );
    assert_eq!(rig.told_meanwhile().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_narrow_list_of_too_many_objects_is_given_up() {
    let (mut rig, _stream, mut call) = asked().await;
    for _ in 1..20 {
        call.page(7, "more", &[pod("a", 3)]).await;
        call = rig.server.call().await;
    }
    call.page(7, "more", &[pod("a", 3)]).await;
    let error = rig.message().await;
    assert!(error.contains("20 objects are not all"), "{error}");
    assert_eq!(rig.server.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_narrow_list_that_never_ends_is_given_up() {
    let (mut rig, _stream, call) = asked().await;
    let mut trickle = call.stream();
    let error = loop {
        trickle.send(" ").await;
        if let Ok(error) = timeout(Duration::from_secs(10), rig.message()).await {
            break error;
        }
    };
    assert!(
        error.starts_with("check failed: ") && error.contains("no usable answer"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_pods_of_a_node_may_take_many_octets() {
    let large = [pod(&"a".repeat(16 << 20), 3)];
    let (mut rig, _stream, of_web) = asked().await;
    of_web.page(7, "", &large).await;
    let error = rig.message().await;
    assert!(
        error.contains("an answer of more than 16777216 octets"),
        "{error}"
    );
    ordered(&mut rig, Selection::OnNode("n".into()))
        .await
        .page(7, "", &large)
        .await;
    assert!(rig.message().await.starts_with("part aaa"));
}

#[tokio::test(start_paused = true)]
async fn a_page_that_stalls_is_given_up_and_the_list_asked_for_again() {
    let mut rig = Rig::new();
    rig.server.call().await.refuse(422, "no").await;
    let mut stalled = rig.server.call().await.stream();
    stalled
        .send(r#"{"metadata":{"resourceVersion":"7"},"items":["#)
        .await;
    assert!(
        rig.message()
            .await
            .starts_with("down: cannot list pods: no usable answer")
    );
    rig.server.call().await.page(9, "", &[pod("a", 3)]).await;
    rig.says(&["reset a @9"]).await;
}

#[tokio::test(start_paused = true)]
async fn two_narrow_lists_of_a_watch_are_under_way_at_a_time_and_come_as_they_are_answered() {
    let (mut rig, _stream, of_web) = asked().await;
    let on_node = ordered(&mut rig, Selection::OnNode("n".into())).await;
    assert_eq!(on_node.param("fieldSelector"), Some("spec.nodeName%3Dn"));
    order(&rig, Selection::OnNode("m".into()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.server.waiting(), 0);
    on_node.page(7, "", &[]).await;
    rig.says(&["part , but  later @7"]).await;
    let on_other = rig.server.call().await;
    assert_eq!(on_other.param("fieldSelector"), Some("spec.nodeName%3Dm"));
    of_web.page(7, "", &[pod("a", 3)]).await;
    rig.says(&["part a, but  later @7"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_full_channel_is_as_old_as_that_until_the_stream_was_read_to_its_end() {
    let (mut rig, mut stream) = Rig::fresh().await;
    let count = ROOM as u64 + 4;
    for version in 8..8 + count {
        stream.event("MODIFIED", &pod("a", version)).await;
    }
    sleep(Duration::from_millis(100)).await;
    let filled = Instant::now();
    sleep(Duration::from_millis(2)).await;
    for number in 0..count {
        assert!(rig.received().await <= filled, "{number}");
    }
    sleep(Duration::from_millis(100)).await;
    stream.event("MODIFIED", &pod("a", 8 + count)).await;
    assert!(rig.received().await > filled);
}

#[tokio::test(start_paused = true)]
async fn whoever_has_the_tasks_of_the_watches_notices_that_one_has_panicked() {
    let mut rig = Rig::with_clock(|| panic!("there is no clock"));
    let ended = rig.watches.take_tasks().join_next().await;
    assert!(ended.unwrap().unwrap_err().is_panic());
}
