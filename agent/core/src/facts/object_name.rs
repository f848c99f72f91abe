//! Which object of its kind one is.

use super::text::Text;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Namespace and name of an object. Those of one namespace are next to each other, by name.
/// Files of names have them as pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(Text, Text)", into = "(Text, Text)")]
pub struct ObjectName {
    /// Empty for kinds without namespaces.
    pub namespace: Text,
    /// Within the namespace.
    pub name: Text,
}

impl ObjectName {
    /// For kinds without namespaces `namespace` is empty.
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Reads `namespace/name`; none if a part is missing, or if there are more.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return None;
        }
        Some(Self::new(namespace, name))
    }

    /// The least name of a namespace: a range of all its objects begins there.
    pub fn first_of(namespace: impl Into<Text>) -> Self {
        Self::new(namespace, Text::default())
    }
}

impl From<(Text, Text)> for ObjectName {
    fn from((namespace, name): (Text, Text)) -> Self {
        Self { namespace, name }
    }
}

impl From<ObjectName> for (Text, Text) {
    fn from(object: ObjectName) -> Self {
        (object.namespace, object.name)
    }
}

/// `namespace/name`, as kubectl takes it.
impl fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_as_a_pair() {
        let name = ObjectName::new("shop", "web");
        let stored = serde_json::to_string(&name).unwrap();
        assert_eq!(stored, r#"["shop","web"]"#);
        assert_eq!(serde_json::from_str::<ObjectName>(&stored).unwrap(), name);
    }
}
