//! Fuzzes lines of a watch and pages of a list.

use super::super::line::{Line, Read};
use super::super::wire::{Entry, Page, describe};
use crate::fuzz::harness::{corpus, run};
use epguard_core::facts::{Name, Object as _, Pod};

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

/// The name and the version of the object that a line shows, whether it is new, whether it exists, and the object.
fn shown<T>(
    line: Line<T>,
    object: impl Fn(T) -> Option<Pod>,
) -> Option<(Name, u64, bool, bool, Option<Pod>)> {
    let (entry, exists) = match line {
        Line::Applied(entry) => (entry, true),
        Line::Deleted(entry) => (entry, false),
        Line::Bookmark { .. } | Line::Error(_) => return None,
    };
    Some((entry.name, entry.version, entry.new, exists, object(entry.object)))
}

#[test]
fn lines_of_a_watch() {
    run("watch", corpus("watch"), WORDS, |line| {
        let (parsed, read) = (Line::parse(line), Line::<Read<Pod>>::read(line));
        if std::str::from_utf8(line).is_ok() {
            let parsed = parsed
                .ok()
                .and_then(|line| shown(line, |json| Pod::parse(json).ok()));
            let read = read.ok().and_then(|line| shown(line, |read| read.object.ok()));
            assert_eq!(parsed, read);
        }
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
