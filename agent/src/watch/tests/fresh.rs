//! What proves a watch fresh, and what doesn't.

use super::mock::{Rig, Stream, pod};
use crate::clock::boot;
use crate::freshness::Proof::{Bookmark, Confirmation, Event, List};
use crate::watch::WatchId::Pods;
use std::time::Duration;
use tokio::time::sleep;

/// A stream that was cut at version 7 and goes on behind it, nothing proven since.
async fn resumed() -> (Rig, Stream) {
    let (mut rig, stream) = Rig::streaming().await;
    drop(stream);
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "watch 7");
    assert_eq!(rig.proven().await, [List]);
    (rig, call.stream())
}

#[tokio::test(start_paused = true)]
async fn a_list_proves_the_moment_when_it_was_asked_for() {
    let mut rig = Rig::new();
    let call = rig.server.call().await;
    let asked = boot();
    let mut stream = call.stream();
    stream.bookmark(7, true).await;
    assert_eq!(rig.told().await, "reset  @7");
    assert_eq!(rig.told().await, "up");
    let (by, as_of) = rig.proofs[0];
    assert_eq!(by, List);
    assert!(as_of <= asked, "{as_of:?} is after {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn only_a_resource_version_that_advances_is_proof() {
    let (mut rig, mut stream) = Rig::streaming().await;
    assert_eq!(rig.proven().await, [List]);
    for (version, proof) in [(7, vec![]), (9, vec![Bookmark]), (9, vec![])] {
        stream.bookmark(version, false).await;
        assert_eq!(rig.told().await, format!("progress @{version}"));
        assert_eq!(rig.proven().await, proof, "{version}");
    }
    for (version, proof) in [(9, vec![]), (10, vec![Event])] {
        stream.event("MODIFIED", &pod("a", version)).await;
        assert_eq!(rig.told().await, format!("applied a @{version}"));
        assert_eq!(rig.proven().await, proof, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_gap_events_may_be_old_ones_until_a_bookmark_or_a_confirmation() {
    let (mut rig, mut stream) = resumed().await;
    stream.event("MODIFIED", &pod("a", 8)).await;
    assert_eq!(rig.told().await, "applied a @8");
    assert_eq!(rig.proven().await, []);
    stream.bookmark(9, false).await;
    assert_eq!(rig.told().await, "progress @9");
    stream.event("MODIFIED", &pod("a", 10)).await;
    assert_eq!(rig.told().await, "applied a @10");
    assert_eq!(rig.proven().await, [Bookmark, Event]);

    let (mut rig, mut stream) = resumed().await;
    rig.watches.confirm(Pods);
    rig.server.call().await.page(7, "", &[]).await;
    assert_eq!(rig.proven().await, [Confirmation]);
    stream.event("MODIFIED", &pod("a", 8)).await;
    assert_eq!(rig.told().await, "applied a @8");
    assert_eq!(rig.proven().await, [Event]);
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_is_a_consistent_list_of_one_and_proves_the_moment_when_it_was_sent() {
    let (mut rig, _stream) = Rig::streaming().await;
    assert_eq!(rig.proven().await, [List]);
    rig.watches.confirm(Pods);
    rig.watches.confirm(Pods);
    let call = rig.server.call().await;
    let sent = boot();
    assert_eq!((call.kind().as_str(), call.path()), ("confirm", "/api/v1/pods"));
    assert_eq!((call.param("resourceVersion"), call.param("watch")), (None, None));
    call.page(50, "more", &[pod("a", 3)]).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.told_meanwhile().await, None);
    let [(Confirmation, as_of)] = rig.proofs[..] else {
        panic!("{:?}", rig.proofs)
    };
    assert!(as_of <= sent, "{as_of:?} is after {sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_comes_behind_everything_that_the_watch_has_received() {
    let (mut rig, mut stream) = Rig::streaming().await;
    assert_eq!(rig.proven().await, [List]);
    rig.watches.confirm(Pods);
    let call = rig.server.call().await;
    call.page(50, "", &[pod("a", 3)]).await;
    stream.event("MODIFIED", &pod("a", 8)).await;
    rig.proofs.clear();
    assert_eq!(rig.told().await, "applied a @8");
    assert!(!rig.proofs.iter().any(|(by, _)| *by == Confirmation));
    assert_eq!(rig.proven().await, [Event, Confirmation]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lacks_what_the_list_shows_may_catch_up() {
    let (mut rig, mut stream) = Rig::streaming().await;
    assert_eq!(rig.proven().await, [List]);
    rig.watches.confirm(Pods);
    rig.server.call().await.page(50, "", &[pod("a", 12)]).await;
    assert_eq!(rig.proven().await, []);
    stream.event("MODIFIED", &pod("a", 12)).await;
    assert_eq!(rig.told().await, "applied a @12");
    assert_eq!(rig.proven().await, [Event, Confirmation]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_behind_a_list_is_lost_and_resumed() {
    let (mut rig, _stuck) = Rig::streaming().await;
    rig.watches.confirm(Pods);
    rig.server.call().await.page(50, "", &[pod("a", 12)]).await;
    assert_eq!(
        rig.told().await,
        "down: cannot watch pods: a list shows resourceVersion 12, and the watch has stopped at 7; connecting again"
    );
    assert_eq!(rig.proven().await, [List]);
    assert_eq!(rig.server.call().await.kind(), "watch 7");
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_that_fails_is_told_and_the_stream_goes_on() {
    let (mut rig, mut stream) = Rig::streaming().await;
    rig.watches.confirm(Pods);
    rig.server.call().await.refuse(500, "overloaded").await;
    assert_eq!(
        rig.told().await,
        "unconfirmed: cannot list pods: the API server answers 500 (overloaded); retrying"
    );
    stream.event("MODIFIED", &pod("a", 8)).await;
    assert_eq!(rig.told().await, "applied a @8");
    assert_eq!(rig.proven().await, [List, Event]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_down_is_confirmed_once_it_is_up() {
    let (mut rig, stream) = Rig::streaming().await;
    assert_eq!(rig.proven().await, [List]);
    drop(stream);
    let call = rig.server.call().await;
    rig.watches.confirm(Pods);
    assert_eq!(rig.proven().await, []);
    let _stream = call.stream();
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "confirm");
    call.page(7, "", &[]).await;
    assert_eq!(rig.proven().await, [Confirmation]);
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_what_was_seen_before_it_resets_everything() {
    let (mut rig, mut stream) = Rig::streaming().await;
    rig.watches.confirm(Pods);
    let call = rig.server.call().await;
    stream.event("MODIFIED", &pod("a", 8)).await;
    assert_eq!(rig.told().await, "applied a @8");
    call.page(7, "", &[pod("a", 3)]).await;
    assert_eq!(
        rig.proven().await,
        [List, Event, Confirmation],
        "sent before 8 was seen"
    );
    rig.watches.confirm(Pods);
    rig.server.call().await.page(5, "", &[pod("a", 3)]).await;
    let cause = "cannot watch pods: the API went back in time, from resourceVersion 8 to 5: was etcd restored? \
                 Everything is listed again";
    assert_eq!(rig.told().await, format!("rewound: {cause}"));
    assert_eq!(rig.told().await, format!("down: {cause}"));
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "stream");
    let mut stream = call.stream();
    stream.bookmark(5, true).await;
    assert_eq!(rig.told().await, "reset  @5", "told once");
}
