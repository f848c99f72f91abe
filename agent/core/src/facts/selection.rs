//! Narrow lists: the part of a collection that a selector matches.

use super::labels::Selector;
use super::object_name::ObjectName;
use super::pod::Pod;
use super::slice::Slice;
use super::text::Text;
use std::collections::BTreeSet;
use std::time::Duration;

/// The objects that a narrow list asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// The pods of a namespace with these labels, on one node or on any.
    Labelled {
        /// The namespace.
        namespace: Text,
        /// The labels.
        selector: Selector,
        /// The node; none: any.
        node: Option<Text>,
    },
    /// The pods on a node.
    OnNode(Text),
    /// The slices of some Services of a namespace.
    SlicesOf {
        /// The namespace.
        namespace: Text,
        /// The names of the Services.
        services: BTreeSet<Text>,
    },
}

/// A consistent list of the objects that a selection matches.
#[derive(Debug, Clone)]
pub struct Part<T> {
    /// What was asked for.
    pub selection: Selection,
    /// When it was requested, on the clock of the state: it holds every earlier change.
    pub sent: Duration,
    /// The objects, without those in `later`.
    pub objects: Vec<T>,
    /// Objects that the watch has shown in a later state than the list, or as deleted. The list
    /// proves nothing of them.
    pub later: BTreeSet<ObjectName>,
}

impl Selection {
    /// True if the selection matches the pod for certain.
    pub fn has_pod(&self, pod: &Pod) -> bool {
        match self {
            Self::Labelled {
                namespace,
                selector,
                node,
            } => {
                pod.name.namespace == *namespace
                    && (node.is_none() || pod.node == *node)
                    && selector.selects(&pod.labels)
                    && !pod.labels.are_cut()
            }
            Self::OnNode(node) => pod.node.as_ref() == Some(node),
            Self::SlicesOf { .. } => false,
        }
    }

    /// True if the selection matches the slice.
    pub fn has_slice(&self, slice: &Slice) -> bool {
        match (self, &slice.service) {
            (
                Self::SlicesOf {
                    namespace,
                    services,
                },
                Some(service),
            ) => service.namespace == *namespace && services.contains(&service.name),
            _ => false,
        }
    }

    /// The slices of one Service.
    pub fn slices_of(service: &ObjectName) -> Self {
        Self::SlicesOf {
            namespace: service.namespace.clone(),
            services: BTreeSet::from([service.name.clone()]),
        }
    }

    /// True if a list of this selection has all that a list of the other one would have.
    pub fn covers(&self, other: &Self) -> bool {
        let mut both = self.clone();
        self == other || both.join(other) && both == *self
    }

    /// Adds what the other selection has, if one list can show both. False if not.
    pub fn join(&mut self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::SlicesOf {
                    namespace,
                    services,
                },
                Self::SlicesOf {
                    namespace: of,
                    services: others,
                },
            ) if namespace == of => {
                services.extend(others.iter().cloned());
                true
            }
            _ => false,
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
            name: ObjectName::new("shop", "a"),
            node: Some("n1".into()),
            labels: [("app", "web"), ("x", "y")].into_iter().collect(),
            ..Pod::default()
        };
        let other = Pod {
            name: ObjectName::new("other", "a"),
            node: Some("n2".into()),
            ..pod.clone()
        };
        let has = |selection: &Selection| [selection.has_pod(&pod), selection.has_pod(&other)];
        for selection in [
            labelled(None),
            labelled(Some("n1")),
            Selection::OnNode("n1".into()),
        ] {
            assert_eq!(has(&selection), [true, false], "{selection:?}");
        }
        assert_eq!(has(&labelled(Some("n2"))), [false, false]);
        assert_eq!(
            has(&Selection::slices_of(&ObjectName::new("shop", "web"))),
            [false; 2]
        );
    }

    #[test]
    fn a_list_of_the_slices_of_several_services_covers_those_of_each() {
        let of = |namespace: &str, service: &str| {
            Selection::slices_of(&ObjectName::new(namespace, service))
        };
        let mut both = of("shop", "web");
        assert!(both.join(&of("shop", "api")));
        assert!(!both.join(&of("other", "web")) && !both.join(&labelled(None)));
        assert!(
            both.covers(&of("shop", "web"))
                && both.covers(&of("shop", "api"))
                && both.covers(&both)
        );
        assert!(!both.covers(&of("other", "web")) && !of("shop", "web").covers(&both));
        assert!(
            labelled(None).covers(&labelled(None)) && !labelled(None).covers(&labelled(Some("n1")))
        );
    }
}
