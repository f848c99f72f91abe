//! The collection of objects that a watch reads.

use epguard_core::facts::{Name, Object, Selection};
use kube::api::ListParams;

/// Namespace and name of no object: a list of it costs the server next to nothing, however large the collection is.
const NOTHING: (&str, &str) = ("default", "epguard-confirmation");

/// The objects of a kind that a selector matches.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    /// `/api/v1/pods`.
    pub(super) path: &'static str,
    /// A field selector.
    pub(super) selector: Option<String>,
}

/// The objects that a list asks for.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) path: String,
    fields: Option<String>,
    labels: Option<String>,
}

impl Collection {
    /// All objects of a kind.
    pub(super) fn all<O: Object>() -> Self {
        let selector = None;
        let path = O::PATH;
        Self { path, selector }
    }

    /// Of these, the object of this name.
    pub(super) fn only(&self, name: &str) -> Self {
        Self {
            selector: Some(named(name)),
            ..*self
        }
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

impl Target {
    /// The whole collection.
    pub(super) fn of(collection: &Collection) -> Self {
        Self {
            path: collection.path.to_owned(),
            fields: collection.selector.clone(),
            labels: None,
        }
    }

    /// A name that no object has.
    pub(super) fn nothing<O: Object>() -> Self {
        let (namespace, name) = NOTHING;
        Self {
            path: path_in::<O>(namespace),
            fields: Some(named(name)),
            labels: None,
        }
    }

    /// The objects of a narrow list.
    pub(super) fn selected<O: Object>(selection: &Selection) -> Self {
        let (path, fields, labels) = match selection {
            Selection::Labelled {
                namespace,
                selector,
                node,
            } => {
                let node = node.as_deref().map(on_node);
                let labels = Some(selector.as_str().to_owned()).filter(|labels| !labels.is_empty());
                (path_in::<O>(namespace), node, labels)
            }
            Selection::Named((namespace, name)) => (path_in::<O>(namespace), Some(named(name)), None),
            Selection::OnNode(node) => (O::PATH.to_owned(), Some(on_node(node)), None),
            Selection::SlicesOf { namespace, services } => {
                let services = services
                    .iter()
                    .map(|name| -> &str { name })
                    .collect::<Vec<_>>()
                    .join(",");
                let label = format!("kubernetes.io/service-name in ({services})");
                (path_in::<O>(namespace), None, Some(label))
            }
        };
        Self { path, fields, labels }
    }

    /// The parameters of a list of so many objects at most; none: all of them.
    pub(super) fn params(&self, limit: Option<u32>) -> ListParams {
        ListParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            limit,
            ..ListParams::default()
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

fn on_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::{ModePolicy, Node, Pod, Selector, Slice};

    #[test]
    fn a_single_object_is_requested_in_its_namespace_only() {
        let one = Collection::one::<ModePolicy>(&("epguard".into(), "fleet".into()));
        assert_eq!(one.path, "/api/v1/namespaces/epguard/configmaps");
        assert_eq!(one.selector.as_deref(), Some("metadata.name=fleet"));
    }

    #[test]
    fn the_key_of_nothing_is_one_name_of_each_kind() {
        let (slices, nodes) = (Target::nothing::<Slice>(), Target::nothing::<Node>());
        let of_slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        assert_eq!(
            (slices.path.as_str(), nodes.path.as_str()),
            (of_slices, "/api/v1/nodes")
        );
        assert_eq!(
            slices.fields.as_deref(),
            Some("metadata.name=epguard-confirmation")
        );
    }

    #[test]
    fn a_narrow_list_asks_for_what_its_selection_names() {
        let name: Name = ("shop".into(), "web".into());
        let labelled = Selection::Labelled {
            namespace: "shop".into(),
            selector: [("app", "web"), ("tier", "front")].into_iter().collect(),
            node: Some("n1".into()),
        };
        let all_of_shop = Selection::Labelled {
            namespace: "shop".into(),
            selector: Selector::default(),
            node: None,
        };
        let mut both = Selection::slices_of(&name);
        assert!(both.join(&Selection::slices_of(&("shop".into(), "api".into()))));
        let of = |target: Target| {
            (
                target.path,
                target.fields.unwrap_or_default(),
                target.labels.unwrap_or_default(),
            )
        };
        let shown = [
            of(Target::selected::<Pod>(&labelled)),
            of(Target::selected::<Pod>(&all_of_shop)),
            of(Target::selected::<Pod>(&Selection::Named(name.clone()))),
            of(Target::selected::<Pod>(&Selection::OnNode("n1".into()))),
            of(Target::selected::<Slice>(&both)),
        ];
        let expected = [
            (
                "/api/v1/namespaces/shop/pods",
                "spec.nodeName=n1",
                "app=web,tier=front",
            ),
            ("/api/v1/namespaces/shop/pods", "", ""),
            ("/api/v1/namespaces/shop/pods", "metadata.name=web", ""),
            ("/api/v1/pods", "spec.nodeName=n1", ""),
            (
                "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
                "",
                "kubernetes.io/service-name in (api,web)",
            ),
        ];
        assert_eq!(
            shown,
            expected.map(|(path, fields, labels)| (path.into(), fields.into(), labels.into()))
        );
    }
}
