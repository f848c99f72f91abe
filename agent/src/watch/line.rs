//! The lines of a watch.

use super::wire::{Entry, Headed, version};
use anyhow::Context;
use epguard_core::facts::{Ignored, Object, Unreadable};
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::HashMap};

/// One line of a watch, with an object as JSON or as it was read.
#[derive(Debug)]
pub(super) enum Line<T> {
    /// ADDED or MODIFIED.
    Applied(Entry<T>),
    /// DELETED.
    Deleted(Entry<T>),
    /// Everything up to `version` has been sent.
    Bookmark {
        version: u64,
        /// True if all objects that existed when a streamed list began have been sent too.
        complete: bool,
    },
    /// The server ends this stream with an error.
    Error(Box<Status>),
}

/// An object, or why it is none, and its annotations that could not be read.
#[derive(Debug)]
pub(super) struct Read<O> {
    pub(super) object: Result<O, Unreadable>,
    pub(super) ignored: Ignored,
}

impl<O: Object> Line<Read<O>> {
    /// Reads a line without its end, and its object. Lines as an API server writes them are parsed once; one that is written
    /// otherwise, or whose object can't be read, is parsed again for what it is.
    pub(super) fn read(line: &[u8]) -> anyhow::Result<Self> {
        let read = |json| Read::of(|ignored| O::read(json, ignored));
        match Self::at_once(line) {
            Some(line) => Ok(line),
            None => Ok(Line::parse(line)?.map(read)),
        }
    }

    fn at_once(line: &[u8]) -> Option<Self> {
        if !BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) {
            return None;
        }
        let Change { kind, object } = serde_json::from_slice::<Change<O::Raw<'_>>>(line).ok()?;
        let meta = object.as_ref();
        let entry = Entry {
            name: meta.name(),
            version: version(meta.version()).ok()?,
            new: kind == Kind::Added,
            object: Read::of(|ignored| O::of(object, ignored)),
        };
        Some(match kind {
            Kind::Added | Kind::Modified => Self::Applied(entry),
            Kind::Deleted => Self::Deleted(entry),
        })
    }
}

impl<O> Read<O> {
    fn of(read: impl FnOnce(&mut Ignored) -> Result<O, Unreadable>) -> Self {
        let mut ignored = Ignored::new();
        let object = read(&mut ignored);
        Self { object, ignored }
    }
}

impl<T> Line<T> {
    fn map<U>(self, object: impl FnOnce(T) -> U) -> Line<U> {
        match self {
            Self::Applied(entry) => Line::Applied(entry.map(object)),
            Self::Deleted(entry) => Line::Deleted(entry.map(object)),
            Self::Bookmark { version, complete } => Line::Bookmark { version, complete },
            Self::Error(status) => Line::Error(status),
        }
    }
}

impl<'a> Line<&'a [u8]> {
    /// Parses a line without its end, but not its object.
    pub(super) fn parse(line: &'a [u8]) -> anyhow::Result<Self> {
        let event: Event = serde_json::from_slice(line).context("not a watch event")?;
        let json = event.object.get();
        Ok(match event.kind.as_ref() {
            kind @ ("ADDED" | "MODIFIED") => Self::Applied(Entry {
                new: kind == "ADDED",
                ..Entry::parse(json)?
            }),
            "DELETED" => Self::Deleted(Entry::parse(json)?),
            "BOOKMARK" => {
                let meta = serde_json::from_str::<Headed<BookmarkMeta>>(json)?.metadata;
                let annotations = meta.annotations.unwrap_or_default();
                Self::Bookmark {
                    version: version(&meta.resource_version)?,
                    complete: annotations
                        .get("k8s.io/initial-events-end")
                        .is_some_and(|v| v == "true"),
                }
            }
            "ERROR" => Self::Error(serde_json::from_str(json)?),
            other => anyhow::bail!("a watch event of unknown type {other:?}"),
        })
    }
}

/// How a line that shows an object begins.
const BEGINNINGS: [&[u8]; 3] = [
    br#"{"type":"ADDED","object":{"#,
    br#"{"type":"MODIFIED","object":{"#,
    br#"{"type":"DELETED","object":{"#,
];

/// A line that shows an object.
#[derive(Deserialize)]
struct Change<R> {
    #[serde(rename = "type")]
    kind: Kind,
    object: R,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Added,
    Modified,
    Deleted,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Metadata of a bookmark. Separate from those of objects, so that no other object's annotations are copied.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: Option<HashMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::{Name, Namespace};

    type Seen = (Name, u64, bool);

    fn seen<T>(line: &Line<T>) -> Option<Seen> {
        match line {
            Line::Applied(entry) => Some((entry.name.clone(), entry.version, entry.new)),
            _ => None,
        }
    }

    fn read(line: &str) -> anyhow::Result<Line<Read<Namespace>>> {
        Line::read(line.as_bytes())
    }

    #[test]
    fn a_line_means_the_same_however_its_keys_are_spaced_and_ordered() {
        let expected = Some((("shop".into(), "a".into()), 7, true));
        let metadata = r#""metadata":{"name":"a","namespace":"shop","resourceVersion":"7"}"#;
        let spec = r#""spec":{"metadata":{"name":"b"}}"#;
        for object in [format!("{{{metadata},{spec}}}"), format!("{{{spec},{metadata}}}")] {
            for line in [
                format!(r#"{{"type":"ADDED","object":{object}}}"#),
                format!(r#"{{ "type" : "ADDED", "object" : {object} }}"#),
                format!(r#"{{"object":{object},"type":"ADDED"}}"#),
            ] {
                assert_eq!(seen(&Line::parse(line.as_bytes()).unwrap()), expected, "{line}");
                assert_eq!(seen(&read(&line).unwrap()), expected, "{line}");
            }
        }
    }

    #[test]
    fn an_object_without_metadata_is_refused_and_so_is_anything_else() {
        for line in [
            r#"{"type":"ADDED","object":{"spec":{}}}"#,
            r#"{"type":"ADDED","object":[]}"#,
            r#"{"type":"ADDED","object":}"#,
            r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"},"spec":{}"#,
            r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"x"}}}"#,
            r#"{"type":"GONE","object":{"metadata":{"resourceVersion":"7"}}}"#,
            r#"{"type":"ADDED"}"#,
            "",
        ] {
            assert!(Line::parse(line.as_bytes()).is_err(), "{line}");
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_keeps_its_name_but_a_broken_line_has_none() {
        let line =
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7","labels":1}}}"#;
        let Ok(Line::Applied(entry)) = read(line) else {
            panic!("{line}")
        };
        assert_eq!(
            (&*entry.name.1, entry.version, entry.object.object.is_err()),
            ("a", 7, true)
        );
        assert!(read(&line[..line.len() - 1]).is_err(), "without its end");
        assert!(read(&format!("{line}}}")).is_err(), "with more behind it");
    }
}
