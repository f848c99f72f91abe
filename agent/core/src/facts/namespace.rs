//! Namespaces: only their annotation matters.

use super::{Ignored, Meta, Object, Text, Unreadable, shared};
use epguard_common::Mode;
use serde::Deserialize;

/// A Namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The namespace's name.
    pub name: Text,
    /// Highest mode for its Services and pods that its annotation `epguard.io/mode` allows.
    pub bound: Mode,
}

impl Object for Namespace {
    const KIND: &'static str = "Namespace";
    const PATH: &'static str = "/api/v1/namespaces";
    const NAMESPACED: bool = false;

    type Raw<'a> = RawNamespace<'a>;

    fn from_raw(raw: RawNamespace<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        let RawNamespace { metadata } = raw;
        if metadata.name.is_empty() {
            return Err(Unreadable::because("Namespace without a name"));
        }
        Ok(Self { bound: metadata.bound(ignored), name: shared(&metadata.name) })
    }
}

/// What is read of its JSON.
#[derive(Deserialize)]
pub struct RawNamespace<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
}

impl<'a> AsRef<Meta<'a>> for RawNamespace<'a> {
    fn as_ref(&self) -> &Meta<'a> {
        &self.metadata
    }
}
