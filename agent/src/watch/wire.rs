//! The format of lists; the objects in them are left unparsed.

use anyhow::Context;
use epguard_core::facts::{Name, Text, shared};
use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// An object of a list or a watch.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) name: Name,
    pub(super) version: u64,
    /// True if the object is new in the collection.
    pub(super) new: bool,
    pub(super) object: T,
}

/// One page of a list.
pub(super) struct Page<'a> {
    pub(super) version: u64,
    /// The token of the next page.
    pub(super) next: Option<String>,
    pub(super) objects: Vec<&'a RawValue>,
}

impl<T> Entry<T> {
    /// The same with another form of its object.
    pub(super) fn map<U>(self, object: impl FnOnce(T) -> U) -> Entry<U> {
        Entry {
            name: self.name,
            version: self.version,
            new: self.new,
            object: object(self.object),
        }
    }
}

impl<'a> Entry<&'a [u8]> {
    /// An object of a list.
    pub(super) fn of(object: &'a RawValue) -> anyhow::Result<Self> {
        Self::parse(object.get())
    }

    /// Parses an object no further than its metadata needs.
    pub(super) fn parse(json: &'a str) -> anyhow::Result<Self> {
        let meta = Meta::of(json)?;
        Ok(Self {
            version: version(&meta.resource_version)?,
            name: (shared(&meta.namespace), Text::from(&*meta.name)),
            new: false,
            object: json.as_bytes(),
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
pub(super) fn version(text: &str) -> anyhow::Result<u64> {
    text.parse().with_context(|| format!("resourceVersion {text:?}"))
}

/// An object, of which only the metadata matters.
#[derive(Deserialize)]
pub(super) struct Headed<M> {
    pub(super) metadata: M,
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
