//! Namespaces: only their annotation matters.

use super::{Ignored, Meta, Object, Text, Unreadable, parse, shared};
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

    fn read(json: &[u8], ignored: &mut Ignored) -> Result<Self, Unreadable> {
        let RawNamespace { metadata } = parse(json)?;
        if metadata.name.is_empty() {
            return Err(Unreadable::because("Namespace without a name"));
        }
        Ok(Self {
            bound: metadata.bound(ignored),
            name: shared(&metadata.name),
        })
    }
}

#[derive(Deserialize)]
struct RawNamespace {
    metadata: Meta,
}
