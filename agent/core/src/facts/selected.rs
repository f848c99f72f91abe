//! Which objects a narrow list has.

use super::{Pod, Selection, Slice, Text};

impl Selection {
    /// True if the selection matches the pod.
    #[must_use]
    pub fn has_pod(&self, pod: &Pod) -> bool {
        match self {
            Self::Labelled {
                namespace,
                selector,
                node,
            } => {
                pod.name.0 == *namespace
                    && (node.is_none() || pod.node == *node)
                    && selector.selects(&pod.labels)
            }
            Self::Named(name) => pod.name == *name,
            Self::OnNode(node) => pod.node.as_ref() == Some(node),
            Self::SlicesOf(_) => false,
            Self::InNamespace(namespace) => pod.name.0 == *namespace,
        }
    }

    /// True if the selection matches the slice.
    #[must_use]
    pub fn has_slice(&self, slice: &Slice) -> bool {
        match self {
            Self::SlicesOf(service) => slice.service.as_ref() == Some(service),
            Self::InNamespace(namespace) => slice.name.0 == *namespace,
            Self::Labelled { .. } | Self::Named(_) | Self::OnNode(_) => false,
        }
    }

    /// The namespace of all objects that the selection matches; none if there may be several.
    #[must_use]
    pub fn namespace(&self) -> Option<&Text> {
        match self {
            Self::Labelled { namespace, .. } | Self::InNamespace(namespace) => Some(namespace),
            Self::Named(name) | Self::SlicesOf(name) => Some(&name.0),
            Self::OnNode(_) => None,
        }
    }

    /// True if a list of this selection has all that a list of the other one, of the same kind, would have.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match self {
            Self::InNamespace(namespace) => other.namespace() == Some(namespace),
            narrower => narrower == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(node: Option<&str>) -> Selection {
        Selection::Labelled {
            namespace: "shop".into(),
            selector: [("app", "web")].into_iter().collect(),
            node: node.map(Into::into),
        }
    }

    #[test]
    fn a_selection_has_what_the_api_server_would_list() {
        let pod = Pod {
            name: ("shop".into(), "a".into()),
            node: Some("n1".into()),
            labels: [("app", "web"), ("x", "y")].into_iter().collect(),
            ..Pod::default()
        };
        let other = Pod {
            name: ("other".into(), "a".into()),
            node: Some("n2".into()),
            ..pod.clone()
        };
        let has = |selection: &Selection| [selection.has_pod(&pod), selection.has_pod(&other)];
        for selection in [
            labelled(None),
            labelled(Some("n1")),
            Selection::Named(("shop".into(), "a".into())),
            Selection::OnNode("n1".into()),
            Selection::InNamespace("shop".into()),
        ] {
            assert_eq!(has(&selection), [true, false], "{selection:?}");
        }
        assert_eq!(has(&labelled(Some("n2"))), [false, false]);
        assert_eq!(
            has(&Selection::SlicesOf(("shop".into(), "web".into()))),
            [false; 2]
        );
    }

    #[test]
    fn a_list_of_a_namespace_covers_all_narrower_ones_there() {
        let shop = Selection::InNamespace("shop".into());
        let of = |namespace: &str| {
            let name = (namespace.into(), "web".into());
            [
                Selection::SlicesOf(name),
                Selection::InNamespace(namespace.into()),
            ]
        };
        for there in of("shop")
            .into_iter()
            .chain([labelled(None), labelled(Some("n1"))])
        {
            assert!(shop.covers(&there) && there.covers(&there), "{there:?}");
            assert!(there == shop || !there.covers(&shop));
        }
        let on_node = [Selection::OnNode("n1".into())];
        assert!(!of("other").iter().chain(&on_node).any(|other| shop.covers(other)));
    }
}
