//! The collection of objects that a watch reads.

use epguard_core::facts::{Name, Object};

/// The objects of a kind that a selector matches.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    /// `/api/v1/pods`.
    pub(super) path: &'static str,
    /// A field selector.
    pub(super) selector: Option<String>,
}

impl Collection {
    /// All objects of a kind.
    pub(super) fn all<O: Object>() -> Self {
        let selector = None;
        let path = O::PATH;
        Self { path, selector }
    }

    /// The one object of this name. The requests need no rights in other namespaces.
    pub(super) fn one<O: Object>((namespace, name): &Name) -> Self {
        Self {
            // Leaks once for the life of the process: every request names its path.
            path: Box::leak(path_in::<O>(namespace).into_boxed_str()),
            selector: Some(format!("metadata.name={name}")),
        }
    }
}

/// The path of a kind's objects in one namespace.
pub(super) fn path_in<O: Object>(namespace: &str) -> String {
    let (root, plural) = O::PATH.rsplit_once('/').unwrap_or(("", O::PATH));
    format!("{root}/namespaces/{namespace}/{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::ModePolicy;

    #[test]
    fn a_single_object_is_requested_in_its_namespace_only() {
        let one = Collection::one::<ModePolicy>(&("epguard".into(), "fleet".into()));
        assert_eq!(one.path, "/api/v1/namespaces/epguard/configmaps");
        assert_eq!(one.selector.as_deref(), Some("metadata.name=fleet"));
    }
}
