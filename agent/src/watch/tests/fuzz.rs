//! Fuzzes lines of a watch and pages of a list.

use super::super::wire::{Entry, Line, Page, describe};
use crate::fuzz::harness::{corpus, run};

const WORDS: &[&str] = &[
    "ADDED",
    "MODIFIED",
    "DELETED",
    "BOOKMARK",
    "ERROR",
    "type",
    "object",
    "metadata",
    "resourceVersion",
    "items",
    "continue",
    "k8s.io/initial-events-end",
    "remainingItemCount",
    "null",
    "{}",
    "[]",
    "\"",
    "\\u0000",
    "\\ud800",
    "code",
    "410",
];

#[test]
fn lines_of_a_watch() {
    run("watch", corpus("watch"), WORDS, |line| {
        let _ = Line::parse(line);
        assert!(describe(line).len() <= 8 * line.len().max(16));
    });
}

#[test]
fn pages_of_a_list() {
    let pages = corpus("pod").into_iter().map(|pod| {
        let pod = String::from_utf8(pod).unwrap();
        format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"token"}},"items":[{pod},{{}}]}}"#)
            .into_bytes()
    });
    run("page", pages.collect(), WORDS, |body| {
        let Ok(Ok(page)) = std::str::from_utf8(body).map(Page::parse) else {
            return;
        };
        for object in page.objects {
            let _ = Entry::of(object);
        }
    });
}
