//! The collection of objects that a watch reads.

use epguard_core::facts::{Name, Object};

/// Namespace and name of no object: a list of it costs the server next to nothing, whatever the collection holds.
const NOTHING: (&str, &str) = ("default", "epguard-confirmation");

/// The objects of a kind that a selector matches.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    /// `/api/v1/pods`.
    pub(super) path: &'static str,
    /// A field selector.
    pub(super) selector: Option<String>,
}

/// A list of one object at most, of the same kind as a collection.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) path: String,
    /// A field selector.
    pub(super) selector: String,
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
            selector: Some(named(name)),
        }
    }
}

impl Key {
    /// A name that no object has.
    pub(super) fn of_nothing<O: Object>() -> Self {
        let (namespace, name) = NOTHING;
        Self {
            path: path_in::<O>(namespace),
            selector: named(name),
        }
    }
}

/// The path of a kind's objects in one namespace; of all of them, if the kind has no namespaces.
pub(super) fn path_in<O: Object>(namespace: &str) -> String {
    if !O::NAMESPACED {
        return O::PATH.to_owned();
    }
    let (root, plural) = O::PATH.rsplit_once('/').unwrap_or(("", O::PATH));
    format!("{root}/namespaces/{namespace}/{plural}")
}

fn named(name: &str) -> String {
    format!("metadata.name={name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::{ModePolicy, Node, Slice};

    #[test]
    fn a_single_object_is_requested_in_its_namespace_only() {
        let one = Collection::one::<ModePolicy>(&("epguard".into(), "fleet".into()));
        assert_eq!(one.path, "/api/v1/namespaces/epguard/configmaps");
        assert_eq!(one.selector.as_deref(), Some("metadata.name=fleet"));
    }

    #[test]
    fn the_key_of_nothing_is_one_name_of_each_kind() {
        let (slices, nodes) = (Key::of_nothing::<Slice>(), Key::of_nothing::<Node>());
        let of_slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        assert_eq!(
            (slices.path.as_str(), nodes.path.as_str()),
            (of_slices, "/api/v1/nodes")
        );
        assert_eq!(slices.selector, "metadata.name=epguard-confirmation");
    }
}
