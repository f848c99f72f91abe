//! Which object of its kind one is.

use super::text::Text;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Namespace and name of an object. Those of one namespace are next to each other, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName {
    /// Empty for kinds without namespaces.
    pub namespace: Text,
    /// Within the namespace.
    pub name: Text,
}

impl ObjectName {
    /// Without namespace, the first one is empty.
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Comes before all objects of the namespace, and after those of the namespaces before it.
    pub fn first_of(namespace: impl Into<Text>) -> Self {
        Self::new(namespace, Text::default())
    }
}

/// `namespace/name`, as kubectl takes it.
impl fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}
