//! The lines of a watch, and the objects in them and in lists.

use anyhow::Context;
use epguard_core::facts::{Ignored, Object, ObjectName, Unreadable, shared};
use kube::core::Status;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// An object, or why it is none.
#[derive(Debug)]
pub(super) struct ReceivedObject<O> {
    pub(super) name: ObjectName,
    pub(super) version: u64,
    pub(super) object: Result<O, Unreadable>,
    /// What its metadata alone makes of it, if that is all that can be read.
    pub(super) bare: Option<O>,
    /// Its annotations that could not be read.
    pub(super) ignored: Ignored,
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum Line<O> {
    /// ADDED, MODIFIED or DELETED.
    Object(LineType, ReceivedObject<O>),
    /// Everything up to `version` has been sent.
    Bookmark {
        version: u64,
        /// True if all objects that existed when a streamed list began have been sent too.
        complete: bool,
    },
    /// The server ends this stream with an error.
    Error(Box<Status>),
}

/// The type of a line.
#[derive(Debug, Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum LineType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Deserialize)]
struct RawLine<T> {
    #[serde(rename = "type")]
    line_type: LineType,
    object: T,
}

/// A list, a bookmark or an object that can't be read, of which only the metadata matters.
#[derive(Deserialize)]
pub(super) struct Headed {
    pub(super) metadata: Head,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Head {
    name: String,
    namespace: String,
    /// Whatever it is: the name must be read all the same.
    uid: Value,
    resource_version: String,
    /// The token of the next page.
    #[serde(rename = "continue")]
    pub(super) next: String,
    annotations: Value,
}

impl Head {
    pub(super) fn version(&self) -> anyhow::Result<u64> {
        parse_version(&self.resource_version)
    }

    /// The object that has this metadata and nothing else; none if it would have no UID.
    fn bare<O: Object>(&self) -> Option<O> {
        let Self {
            name,
            namespace,
            uid,
            ..
        } = self;
        let object = json!({"metadata": {"name": name, "namespace": namespace, "uid": uid}});
        O::parse(object.to_string().as_bytes()).ok()
    }
}

impl<O: Object> ReceivedObject<O> {
    /// Reads an object. Errors: it has no metadata.
    pub(super) fn parse(json: &[u8]) -> anyhow::Result<Self> {
        let error = match serde_json::from_slice(json) {
            Ok(raw) => return Self::from_raw(raw),
            Err(error) => error,
        };
        let Headed { metadata } = serde_json::from_slice(json)?;
        Ok(Self {
            name: ObjectName::new(shared(&metadata.namespace), &*metadata.name),
            version: metadata.version()?,
            bare: metadata.bare(),
            object: Err(error.into()),
            ignored: Ignored::new(),
        })
    }

    /// Reads an object of a list, even one without metadata.
    pub(super) fn parse_listed(json: &[u8]) -> Self {
        Self::parse(json).unwrap_or_else(|error| Self {
            name: ObjectName::default(),
            version: 0,
            object: Err(format!("{error:#}").into()),
            bare: None,
            ignored: Ignored::new(),
        })
    }

    /// The object; none if it cannot be read. Adds what of it could not be, one line each.
    pub(super) fn read(self, skipped: &mut Ignored) -> Option<O> {
        let error = self.object.as_ref().err().map(|error| format!("{error:#}"));
        let unread = self.ignored.iter().chain(&error);
        skipped.extend(unread.map(|what| format!("{}: {what}", self.describe())));
        self.object.ok()
    }

    /// Kind, namespace and name for a log line.
    pub(super) fn describe(&self) -> String {
        let ObjectName { namespace, name } = &self.name;
        if name.is_empty() {
            return format!("{} without a name", O::KIND);
        }
        if namespace.is_empty() {
            return format!("{} {name}", O::KIND);
        }
        format!("{} {}", O::KIND, self.name)
    }

    fn from_raw(raw: O::Raw<'_>) -> anyhow::Result<Self> {
        let name = raw.as_ref().name();
        let version = parse_version(raw.as_ref().version())?;
        let mut ignored = Ignored::new();
        let object = O::from_raw(raw, &mut ignored);
        Ok(Self {
            name,
            version,
            object,
            bare: None,
            ignored,
        })
    }
}

impl<O: Object> Line<O> {
    /// Reads a line without its end. One that shows an object is parsed once, unless the object
    /// can't be read.
    pub(super) fn parse(line: &[u8]) -> anyhow::Result<Self> {
        let whole: Result<RawLine<O::Raw<'_>>, _> = serde_json::from_slice(line);
        if let Ok(RawLine { line_type, object }) = whole
            && !matches!(line_type, LineType::Bookmark | LineType::Error)
        {
            return Ok(Self::Object(line_type, ReceivedObject::from_raw(object)?));
        }
        let raw: RawLine<&RawValue> = serde_json::from_slice(line).context("not a watch event")?;
        let json = raw.object.get();
        Ok(match raw.line_type {
            LineType::Bookmark => {
                let Headed { metadata } = serde_json::from_str(json)?;
                Self::Bookmark {
                    version: metadata.version()?,
                    complete: metadata.annotations["k8s.io/initial-events-end"] == "true",
                }
            }
            LineType::Error => Self::Error(serde_json::from_str(json)?),
            line_type => Self::Object(line_type, ReceivedObject::parse(json.as_bytes())?),
        })
    }
}

/// Parses a resourceVersion: a decimal number that grows within a resource (KEP-5504; so in every
/// server with etcd behind it).
fn parse_version(text: &str) -> anyhow::Result<u64> {
    text.parse()
        .with_context(|| format!("resourceVersion {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::Namespace;

    fn parse(line: &str) -> anyhow::Result<Line<Namespace>> {
        Line::parse(line.as_bytes())
    }

    #[test]
    fn a_line_means_the_same_however_its_keys_are_spaced_and_ordered() {
        let metadata = r#""metadata":{"name":"a","namespace":"shop","resourceVersion":"7"}"#;
        let spec = r#""spec":{"metadata":{"name":"b"}}"#;
        for object in [
            format!("{{{metadata},{spec}}}"),
            format!("{{{spec},{metadata}}}"),
        ] {
            for line in [
                format!(r#"{{"type":"ADDED","object":{object}}}"#),
                format!(r#"{{ "type" : "ADDED", "object" : {object} }}"#),
                format!(r#"{{"object":{object},"type":"ADDED"}}"#),
            ] {
                let Ok(Line::Object(LineType::Added, entry)) = parse(&line) else {
                    panic!("{line}")
                };
                assert_eq!(
                    (entry.name, entry.version),
                    (ObjectName::new("shop", "a"), 7)
                );
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
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_keeps_its_name_but_a_broken_line_has_none() {
        let line = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7","labels":1}}}"#;
        let Ok(Line::Object(LineType::Modified, entry)) = parse(line) else {
            panic!("{line}")
        };
        assert_eq!(
            (&*entry.name.name, entry.version, entry.object.is_err()),
            ("a", 7, true)
        );
        assert!(parse(&line[..line.len() - 1]).is_err(), "without its end");
        assert!(parse(&format!("{line}}}")).is_err(), "with more behind it");
    }
}
