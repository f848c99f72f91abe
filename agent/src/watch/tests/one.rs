//! Tests of the watch of a single object.

use super::mock::{Rig, pod};
use crate::watch::collection::Collection;
use epguard_core::facts::{Pod, Watched::Pods};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn the_watch_of_one_object_is_confirmed_by_that_object_alone() {
    let mut rig = Rig::of(Collection::one::<Pod>(&("ns".into(), "a".into())));
    let mut stream = rig.server.call().await.stream();
    stream.event("ADDED", &pod("a", 3)).await;
    stream.bookmark(7, true).await;
    assert_eq!(rig.message().await, "reset a @7");
    assert_eq!(rig.message().await, "up");
    stream.event("MODIFIED", "3").await;
    assert!(rig.message().await.starts_with("skipped "));
    rig.watches.confirm(Pods, Duration::ZERO);
    let call = rig.server.call().await;
    assert_eq!(
        (call.path(), call.param("fieldSelector")),
        ("/api/v1/namespaces/ns/pods", Some("metadata.name%3Da"))
    );
}
