//! One more consistent list while a stream goes on.

use super::mock::{Rig, pod};
use crate::freshness::Proof::List;
use crate::watch::WatchId::Pods;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_list_beside_the_stream_is_a_reset_and_what_it_covers_is_not_told_again() {
    let (mut rig, mut stream) = Rig::streaming().await;
    assert_eq!(rig.proven().await, [List]);
    rig.watches.relist(Pods, Duration::ZERO);
    let call = rig.server.call().await;
    assert_eq!(
        (call.kind().as_str(), call.param("resourceVersion")),
        ("list", None)
    );
    stream.event("MODIFIED", &pod("a", 8)).await;
    stream.event("DELETED", &pod("a", 9)).await;
    stream.bookmark(10, false).await;
    stream.event("ADDED", &pod("c", 11)).await;
    call.page(10, "", &[pod("b", 10)]).await;
    assert_eq!(rig.told().await, "reset b @10");
    assert_eq!(rig.told().await, "applied c @11");
    assert_eq!(rig.proven().await, [List]);
}

#[tokio::test(start_paused = true)]
async fn a_list_beside_the_stream_that_fails_is_repeated_until_it_succeeds() {
    let (mut rig, _stream) = Rig::streaming().await;
    rig.watches.relist(Pods, Duration::ZERO);
    rig.server.call().await.refuse(500, "overloaded").await;
    assert_eq!(
        rig.told().await,
        "down: cannot list pods: the API server answers 500 (overloaded); retrying"
    );
    let call = rig.server.call().await;
    assert_eq!(call.kind(), "stream");
    let mut stream = call.stream();
    stream.bookmark(12, true).await;
    assert_eq!(rig.told().await, "reset  @12");
    assert_eq!(rig.told().await, "up");
}

#[tokio::test(start_paused = true)]
async fn a_list_beside_the_stream_that_went_back_in_time_is_told_as_such() {
    let (mut rig, _stream) = Rig::streaming().await;
    rig.watches.relist(Pods, Duration::ZERO);
    rig.server.call().await.page(5, "", &[]).await;
    assert_eq!(
        rig.told().await,
        "rewound: the API went back in time, from resourceVersion 7 to 5: was etcd restored? Everything is listed again"
    );
    assert_eq!(rig.told().await, "reset  @5");
}
