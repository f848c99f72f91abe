//! Which objects a narrow list has.

use super::{Name, Pod, Selection, Slice};
use std::collections::BTreeSet;

impl Selection {
    /// True if the selection matches the pod for certain.
    #[must_use]
    pub fn has_pod(&self, pod: &Pod) -> bool {
        match self {
            Self::Labelled { namespace, selector, node } => {
                pod.name.0 == *namespace
                    && (node.is_none() || pod.node == *node)
                    && selector.selects(&pod.labels)
                    && !pod.labels.are_cut()
            }
            Self::Named(name) => pod.name == *name,
            Self::OnNode(node) => pod.node.as_ref() == Some(node),
            Self::SlicesOf { .. } => false,
        }
    }

    /// True if the selection matches the slice.
    #[must_use]
    pub fn has_slice(&self, slice: &Slice) -> bool {
        match (self, &slice.service) {
            (Self::SlicesOf { namespace, services }, Some((of, service))) => {
                of == namespace && services.contains(service)
            }
            _ => false,
        }
    }

    /// The slices of one Service.
    #[must_use]
    pub fn slices_of((namespace, service): &Name) -> Self {
        Self::SlicesOf { namespace: namespace.clone(), services: BTreeSet::from([service.clone()]) }
    }

    /// True if a list of this selection has all that a list of the other one would have.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::SlicesOf { namespace, services }, Self::SlicesOf { namespace: of, services: others }) => {
                namespace == of && others.is_subset(services)
            }
            (one, other) => one == other,
        }
    }

    /// Adds what the other selection has, if one list can show both. False if not.
    pub fn join(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::SlicesOf { namespace, services }, Self::SlicesOf { namespace: of, services: others })
                if namespace == of =>
            {
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
            name: ("shop".into(), "a".into()),
            node: Some("n1".into()),
            labels: [("app", "web"), ("x", "y")].into_iter().collect(),
            ..Pod::default()
        };
        let other = Pod { name: ("other".into(), "a".into()), node: Some("n2".into()), ..pod.clone() };
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
        assert_eq!(has(&Selection::slices_of(&("shop".into(), "web".into()))), [false; 2]);
    }

    #[test]
    fn a_list_of_the_slices_of_several_services_covers_those_of_each() {
        let of = |namespace: &str, service: &str| Selection::slices_of(&(namespace.into(), service.into()));
        let mut both = of("shop", "web");
        assert!(both.join(&of("shop", "api")));
        assert!(!both.join(&of("other", "web")) && !both.join(&labelled(None)));
        assert!(both.covers(&of("shop", "web")) && both.covers(&of("shop", "api")) && both.covers(&both));
        assert!(!both.covers(&of("other", "web")) && !of("shop", "web").covers(&both));
        assert!(labelled(None).covers(&labelled(None)) && !labelled(None).covers(&labelled(Some("n1"))));
    }
}
