//! Narrow lists that are worth nothing, or would take too much.

use super::mock::pod;
use super::narrow::asked;

#[tokio::test(start_paused = true)]
async fn a_narrow_list_with_a_pod_that_cannot_be_read_proves_nothing() {
    let (mut rig, _stream, call) = asked().await;
    let unreadable = r#"{"metadata":{"name":"b","namespace":"ns","uid":1,"resourceVersion":"4"}}"#;
    call.page(7, "", &[pod("a", 3), unreadable.to_owned()]).await;
    let error = rig.told().await;
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
    let error = rig.told().await;
    assert!(error.contains("more than 20 objects"), "{error}");
    assert_eq!(rig.server.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_large_is_given_up() {
    let (mut rig, _stream, call) = asked().await;
    let large = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "a".repeat(16 << 20));
    call.page(7, "", &[large]).await;
    let error = rig.told().await;
    assert!(error.contains("a page of more than 16777216 octets"), "{error}");
}
