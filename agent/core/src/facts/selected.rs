//! Which objects a narrow list has.

use super::{Pod, Selection, Slice};

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
        }
    }

    /// True if the selection matches the slice.
    #[must_use]
    pub fn has_slice(&self, slice: &Slice) -> bool {
        matches!((self, &slice.service), (Self::SlicesOf(service), Some(of)) if service == of)
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
        ] {
            assert_eq!(has(&selection), [true, false], "{selection:?}");
        }
        assert_eq!(has(&labelled(Some("n2"))), [false, false]);
        assert_eq!(
            has(&Selection::SlicesOf(("shop".into(), "web".into()))),
            [false; 2]
        );
    }
}
