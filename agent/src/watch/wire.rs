//! The format of lists and watch events; the objects in them are left unparsed.

use anyhow::Context;
use epguard_core::facts::{Name, Text, shared};
use kube::core::Status;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::HashMap, fmt};

/// One line of a watch.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// ADDED or MODIFIED.
    Applied(Entry<'a>),
    /// DELETED.
    Deleted(Entry<'a>),
    /// Everything up to `version` has been sent.
    Bookmark {
        version: u64,
        /// True if all objects that existed when a streamed list began have been sent too.
        complete: bool,
    },
    /// The server ends this stream with an error.
    Error(Box<Status>),
}

/// An object that is not parsed yet.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) name: Name,
    pub(super) version: u64,
    /// True if the object is new in the collection.
    pub(super) new: bool,
    pub(super) json: &'a [u8],
}

/// One page of a list.
pub(super) struct Page<'a> {
    pub(super) version: u64,
    /// The token of the next page.
    pub(super) next: Option<String>,
    pub(super) objects: Vec<&'a RawValue>,
}

impl<'a> Line<'a> {
    /// Parses a line without its end.
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

impl<'a> Entry<'a> {
    /// An object of a list.
    pub(super) fn of(object: &'a RawValue) -> anyhow::Result<Self> {
        Self::parse(object.get())
    }

    fn parse(json: &'a str) -> anyhow::Result<Self> {
        let meta = Meta::of(json)?;
        Ok(Self {
            version: version(&meta.resource_version)?,
            name: (shared(&meta.namespace), Text::from(&*meta.name)),
            new: false,
            json: json.as_bytes(),
        })
    }
}

impl<'a> Page<'a> {
    /// Parses the body of a list response.
    pub(super) fn parse(body: &'a str) -> anyhow::Result<Self> {
        let list: List = serde_json::from_str(body).context("not a list")?;
        Ok(Self {
            version: version(&list.metadata.resource_version)?,
            next: Some(list.metadata.next).filter(|next| !next.is_empty()),
            objects: list.items.unwrap_or_default(),
        })
    }
}

/// Namespace and name for a log line, if the object has any.
pub(super) fn describe(json: &[u8]) -> String {
    match serde_json::from_slice::<Headed<Meta>>(json) {
        Ok(Headed { metadata }) if metadata.namespace.is_empty() => metadata.name.into_owned(),
        Ok(Headed { metadata }) => format!("{}/{}", metadata.namespace, metadata.name),
        Err(_) => "without a name".to_owned(),
    }
}

/// Parses a resourceVersion: a decimal number that grows within a resource (KEP-5504; so in every server with etcd
/// behind it).
fn version(text: &str) -> anyhow::Result<u64> {
    text.parse().with_context(|| format!("resourceVersion {text:?}"))
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Headed<M> {
    metadata: M,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
}

impl<'a> Meta<'a> {
    /// Reads an object no further than its metadata needs: most of its octets come later.
    fn of(json: &'a str) -> serde_json::Result<Self> {
        let mut metadata = None;
        let read = serde_json::Deserializer::from_str(json).deserialize_map(UpToMetadata(&mut metadata));
        // An object that isn't read to its end is an error of the reader, though not here.
        metadata.ok_or_else(|| {
            let missing = || de::Error::missing_field("metadata");
            read.err().unwrap_or_else(missing)
        })
    }
}

/// Reads a map up to the value of `metadata`.
struct UpToMetadata<'m, 'a>(&'m mut Option<Meta<'a>>);

impl<'de: 'a, 'a> Visitor<'de> for UpToMetadata<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of the API")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == "metadata" {
                *self.0 = Some(map.next_value()?);
                break;
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Metadata of a bookmark. Separate from [`Meta`], so that no other object's annotations are copied.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: Option<HashMap<String, String>>,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue", default)]
    next: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(line: &str) -> (Name, u64, bool) {
        match Line::parse(line.as_bytes()).unwrap() {
            Line::Applied(entry) => (entry.name, entry.version, entry.new),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_means_the_same_however_its_keys_are_spaced_and_ordered() {
        let expected = (("shop".into(), "a".into()), 7, true);
        let metadata = r#""metadata":{"name":"a","namespace":"shop","resourceVersion":"7"}"#;
        let spec = r#""spec":{"metadata":{"name":"b"}}"#;
        for object in [format!("{{{metadata},{spec}}}"), format!("{{{spec},{metadata}}}")] {
            for line in [
                format!(r#"{{"type":"ADDED","object":{object}}}"#),
                format!(r#"{{ "type" : "ADDED", "object" : {object} }}"#),
                format!(r#"{{"object":{object},"type":"ADDED"}}"#),
            ] {
                assert_eq!(applied(&line), expected, "{line}");
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
        }
    }
}
