//! What is read of any object of the API.

use super::meta::{Ignored, Meta, Unreadable};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// An object of the API that can be watched.
pub trait Object: Clone + Send + 'static {
    /// As in the API: `Pod`.
    const KIND: &'static str;
    /// The collection across namespaces: `/api/v1/pods`.
    const PATH: &'static str;
    /// True if its objects are in namespaces.
    const NAMESPACED: bool = true;

    /// Those parts of its JSON that are read.
    type Raw<'a>: Deserialize<'a> + AsRef<Meta<'a>>;

    /// Makes the object of its JSON. Adds the annotations that it could not read to `ignored`.
    ///
    /// Fails only if it has no name or no UID.
    fn from_raw(raw: Self::Raw<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        if raw.as_ref().name.is_empty() {
            return Err(format!("{} without a name", Self::KIND).into());
        }
        Self::from_named(raw, ignored)
    }

    /// The same for an object that has a name.
    fn from_named(raw: Self::Raw<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable>;

    /// Reads one object as it stands in a list or a watch event.
    ///
    /// Fails as [`Object::from_raw`] does, and if it isn't of the API's shape at all.
    fn read(json: &[u8], ignored: &mut Ignored) -> Result<Self, Unreadable> {
        Self::from_raw(serde_json::from_slice(json)?, ignored)
    }

    /// Reads one object and drops the list of unreadable annotations.
    ///
    /// Fails as [`Object::read`] does.
    fn parse(json: &[u8]) -> Result<Self, Unreadable> {
        Self::read(json, &mut Ignored::new())
    }
}

/// The parts of an object that most kinds have; a `ConfigMap` has data.
#[derive(Deserialize)]
pub struct RawObject<'a, S: Default, T: Default, D: Default = IgnoredAny> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(default)]
    pub(super) spec: S,
    #[serde(default)]
    pub(super) status: T,
    #[serde(default)]
    pub(super) data: D,
}

impl<'a, S: Default, T: Default, D: Default> AsRef<Meta<'a>> for RawObject<'a, S, T, D> {
    fn as_ref(&self) -> &Meta<'a> {
        &self.metadata
    }
}
