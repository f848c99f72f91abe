//! Tests of a list of everything that the main loop orders.

use super::mock::{Rig, pod};
use super::narrow::web;
use epguard_core::facts::Watched::Pods;
use epguard_core::freshness::Proof::List;
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn an_ordered_list_is_streamed_and_its_stream_continues() {
    let (mut rig, _old) = Rig::fresh().await;
    rig.watches.list(Pods, None, Duration::ZERO);
    let mut stream = rig.called("stream").await.stream();
    stream.event("ADDED", &pod("b", 9)).await;
    assert_eq!(rig.told_meanwhile().await, None);
    stream.bookmark(10, true).await;
    rig.says(&["reset b @10"]).await;
    rig.relays(&mut stream, "MODIFIED", "b", 11).await;
    assert_eq!(rig.proven().await, [List]);
    assert_eq!(rig.server.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_ordered_list_is_read_in_pages_where_the_server_streams_none() {
    let mut rig = Rig::new();
    rig.server.call().await.refuse(422, "no").await;
    rig.server.call().await.page(7, "", &[pod("a", 3)]).await;
    rig.says(&["reset a @7"]).await;
    let _stream = rig.server.call().await.stream();
    rig.says(&["up"]).await;
    rig.watches.list(Pods, None, Duration::ZERO);
    let mut call = rig.server.call().await;
    if call.kind() == "check" {
        call = rig.server.call().await;
    }
    assert_eq!(call.kind(), "list");
    call.page(9, "", &[pod("b", 8)]).await;
    rig.says(&["reset b @9"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_ordered_list_that_went_back_in_time_is_reported() {
    let (mut rig, _stream) = Rig::streaming().await;
    rig.watches.list(Pods, None, Duration::ZERO);
    let _stream = rig.listed(&[], 5).await;
    rig.says(&["rewound: the API went back in time, from resourceVersion 7 to 5: was etcd restored? Everything is listed again", "reset  @5"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_ordered_list_that_fails_is_repeated() {
    let (mut rig, _stream) = Rig::streaming().await;
    rig.watches.list(Pods, None, Duration::ZERO);
    for code in [429, 500, 503] {
        rig.called("stream").await.refuse(code, "overloaded").await;
        assert!(rig.message().await.starts_with("down: cannot watch pods: "));
    }
    let _stream = rig.listed(&[], 9).await;
    rig.says(&["reset  @9"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_everything_that_comes_anyway_satisfies_earlier_orders_of_whole_and_narrow_lists()
{
    for selection in [None, Some(web())] {
        let (mut rig, mut stream) = Rig::streaming().await;
        stream.error(410, "too old resource version").await;
        assert!(rig.message().await.starts_with("down: "));
        rig.watches.list(Pods, selection, Duration::ZERO);
        let _stream = rig.listed(&[], 12).await;
        rig.says(&["reset  @12", "up"]).await;
        sleep(Duration::from_secs(10)).await;
        assert_eq!(rig.server.waiting(), 0);
    }
}
