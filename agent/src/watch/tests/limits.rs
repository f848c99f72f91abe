//! Narrow lists that are worth nothing, or would take too much.

use super::mock::{Rig, pod};
use super::narrow::{asked, order};
use epguard_core::facts::Selection;

#[tokio::test(start_paused = true)]
async fn a_narrow_list_with_a_pod_that_cannot_be_read_proves_nothing() {
    let (mut rig, _stream, call) = asked().await;
    let unreadable = r#"{"metadata":{"name":"b","namespace":"ns","uid":1,"resourceVersion":"4"}}"#;
    call.page(7, "", &[pod("a", 3), unreadable.to_owned()]).await;
    let error = rig.message().await;
    assert!(
        error.starts_with("unconfirmed: ") && error.contains("ns/b cannot be read"),
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
async fn only_the_pods_of_a_node_are_asked_for_in_smaller_pages() {
    let large = [format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "a".repeat(16 << 20))];
    let (mut rig, _stream, of_web) = asked().await;
    of_web.page(7, "", &large).await;
    let error = rig.message().await;
    assert!(
        error.contains("an answer of more than 16777216 octets"),
        "{error}"
    );
    order(&rig, Selection::OnNode("n".into()));
    for limit in ["100", "10", "1"] {
        let call = rig.server.call().await;
        assert_eq!(call.param("limit"), Some(limit));
        call.page(7, "", &large).await;
    }
    assert!(
        rig.message()
            .await
            .contains("an answer of more than 16777216 octets")
    );
    assert_eq!(rig.server.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_begin_is_asked_for_again_from_where_it_was() {
    let (mut rig, stream) = Rig::streaming().await;
    drop(stream);
    let unanswered = rig.server.call().await;
    assert_eq!(unanswered.kind(), "watch 7");
    assert!(
        rig.message()
            .await
            .starts_with("down: cannot watch pods: no usable answer")
    );
    assert_eq!(rig.server.call().await.kind(), "watch 7");
}
