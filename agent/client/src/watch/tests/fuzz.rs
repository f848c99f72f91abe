//! Fuzzes lines of a watch and pages of a list.

use super::super::line::{Headed, Line, ReceivedObject};
use super::super::list::Items;
use epguard_core::facts::Pod;
use epguard_fuzz::{corpus, run, words};

const WORDS: &str = "ADDED MODIFIED DELETED BOOKMARK ERROR type object metadata resourceVersion items continue \
    k8s.io/initial-events-end remainingItemCount null {} [] \" \\u0000 \\ud800 code 410";

#[test]
fn lines_of_a_watch() {
    run("watch", corpus("watch"), &words(WORDS), |line| {
        if let Ok(Line::Object(_, entry)) = Line::<Pod>::parse(line) {
            assert!(entry.describe().len() <= 8 * line.len().max(16));
        }
    });
}

#[test]
fn pages_of_a_list() {
    let pages = corpus("pod").into_iter().map(|pod| {
        let pod = String::from_utf8(pod).unwrap();
        format!(
            r#"{{"metadata":{{"resourceVersion":"7","continue":"token"}},"items":[{pod},{{}}]}}"#
        )
        .into_bytes()
    });
    run("page", pages.collect::<Vec<_>>(), &words(WORDS), |body| {
        let (mut items, mut octets) = (Items::default(), 0);
        for octet in body {
            if items.complete_with(*octet) {
                let _ = ReceivedObject::<Pod>::parse(&items.item);
                octets += items.item.len();
                items.item.clear();
            }
        }
        let _ = serde_json::from_slice::<Headed>(&items.rest);
        assert!(octets + items.item.len() + items.rest.len() <= body.len());
    });
}
