//! The objects that a request asks for.

use epguard_core::facts::{Object, ObjectName, Selection};

/// Namespace and name of no object. A list of it costs the server next to nothing, however large
/// the collection is.
const NO_NAMESPACE: &str = "default";
const NO_OBJECT: &str = "epguard-freshness-check";

/// The objects of a path that selectors match.
#[derive(Debug, Clone, Default)]
pub(super) struct Collection {
    /// `/api/v1/pods`.
    pub(super) path: String,
    /// A field selector.
    pub(super) fields: Option<String>,
    /// A label selector.
    pub(super) labels: Option<String>,
}

impl Collection {
    /// All objects of a kind.
    pub(super) fn all<O: Object>() -> Self {
        Self {
            path: O::PATH.to_owned(),
            ..Self::default()
        }
    }

    /// Those in one namespace; all of them, if the kind has no namespaces.
    pub(super) fn in_namespace<O: Object>(namespace: &str) -> Self {
        match O::PATH.rsplit_once('/') {
            Some((root, plural)) if O::NAMESPACED => Self {
                path: format!("{root}/namespaces/{namespace}/{plural}"),
                ..Self::default()
            },
            _ => Self::all::<O>(),
        }
    }

    /// Of these, the object of this name.
    pub(super) fn with_name(self, name: &str) -> Self {
        let fields = Some(format!("metadata.name={name}"));
        Self { fields, ..self }
    }

    /// The one object of this name. The requests need no rights in other namespaces.
    pub(super) fn one<O: Object>(object: &ObjectName) -> Self {
        Self::in_namespace::<O>(&object.namespace).with_name(&object.name)
    }

    /// A name that no object has.
    pub(super) fn nothing<O: Object>() -> Self {
        Self::in_namespace::<O>(NO_NAMESPACE).with_name(NO_OBJECT)
    }

    /// The objects of a narrow list.
    pub(super) fn selected<O: Object>(selection: &Selection) -> Self {
        match selection {
            Selection::Labelled {
                namespace,
                selector,
                node,
            } => Self {
                fields: node.as_deref().map(on_node),
                labels: Some(selector.as_str().to_owned()).filter(|labels| !labels.is_empty()),
                ..Self::in_namespace::<O>(namespace)
            },
            Selection::OnNode(node) => Self {
                fields: Some(on_node(node)),
                ..Self::all::<O>()
            },
            Selection::SlicesOf {
                namespace,
                services,
            } => {
                let services: Vec<&str> = services.iter().map(|name| &**name).collect();
                let label = format!("kubernetes.io/service-name in ({})", services.join(","));
                Self {
                    labels: Some(label),
                    ..Self::in_namespace::<O>(namespace)
                }
            }
        }
    }
}

/// The field selector of a node's pods.
fn on_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::{ModePolicy, Node, Pod, Selector, Slice};

    #[test]
    fn a_collection_is_requested_by_path_and_selectors() {
        let name = ObjectName::new("shop", "web");
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
        assert!(both.join(&Selection::slices_of(&ObjectName::new("shop", "api"))));
        let pods = "/api/v1/namespaces/shop/pods";
        let nothing = "metadata.name=epguard-freshness-check";
        for (collection, path, fields, labels) in [
            (
                Collection::one::<ModePolicy>(&ObjectName::new("epguard", "fleet")),
                "/api/v1/namespaces/epguard/configmaps",
                "metadata.name=fleet",
                "",
            ),
            (
                Collection::nothing::<Slice>(),
                "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
                nothing,
                "",
            ),
            (Collection::nothing::<Node>(), "/api/v1/nodes", nothing, ""),
            (
                Collection::selected::<Pod>(&labelled),
                pods,
                "spec.nodeName=n1",
                "app=web,tier=front",
            ),
            (Collection::selected::<Pod>(&all_of_shop), pods, "", ""),
            (
                Collection::selected::<Pod>(&Selection::OnNode("n1".into())),
                "/api/v1/pods",
                "spec.nodeName=n1",
                "",
            ),
            (
                Collection::selected::<Slice>(&both),
                "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
                "",
                "kubernetes.io/service-name in (api,web)",
            ),
        ] {
            assert_eq!(collection.path, path);
            assert_eq!(collection.fields.unwrap_or_default(), fields);
            assert_eq!(collection.labels.unwrap_or_default(), labels);
        }
    }
}
