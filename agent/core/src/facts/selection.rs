//! Labels, the selectors of Services, and narrow lists: the part of a collection that a selector
//! matches.

use super::{ObjectName, Pod, Slice, Text, hash, text::shared_hashes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Labels that are kept of a pod, or of a selector.
const MOST: usize = 256;

/// Octets of a selector's text that are kept. 256 labels can have 97,000.
const TEXT: usize = 4_096;

/// Labels that are compared in about the time in which a pod is looked up.
const FEW: usize = 8;

/// Stands for every label.
const EVERY: u64 = 0;

/// Labels of a pod, or those that a selector asks for. Only a hash of each key with its value is
/// kept, for there are many pods. Two labels with one hash (one in 2^64 pairs) make a Service
/// select one more pod of its own namespace: that lifts denials, until a narrow list of the
/// Service's pods lacks this one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Labels(Arc<[u64]>);

impl Labels {
    /// Those of a pod. One with more than are kept may have any: each selector of its namespace
    /// picks it.
    pub fn of_pod<K: AsRef<str>, V: AsRef<str>>(
        labels: impl ExactSizeIterator<Item = (K, V)>,
    ) -> Self {
        if labels.len() > MOST {
            return Self(shared_hashes(&[EVERY]));
        }
        labels.collect()
    }

    /// True if there are more than are kept.
    pub fn are_cut(&self) -> bool {
        self.0.first() == Some(&EVERY)
    }

    /// True if all labels of the selector are among these, or may be.
    pub fn have_all(&self, selector: &Self) -> bool {
        self.are_cut()
            || selector
                .0
                .iter()
                .all(|label| self.0.binary_search(label).is_ok())
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let labels = labels
            .into_iter()
            .map(|(key, value)| hash((key.as_ref(), value.as_ref())));
        let mut labels: Vec<u64> = labels.collect();
        labels.sort_unstable();
        Self(shared_hashes(&labels))
    }
}

/// Labels that the selected pods have; by default none, which selects all. Their text is kept, as
/// requests for such pods need it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Selector {
    text: Text,
    labels: Labels,
}

impl Selector {
    /// The selector of a Service; none if it has more labels, or more text, than are kept.
    pub fn of_service<K: AsRef<str>, V: AsRef<str>>(labels: &BTreeMap<K, V>) -> Option<Self> {
        let octets: usize = labels
            .iter()
            .map(|(key, value)| key.as_ref().len() + value.as_ref().len())
            .sum();
        (labels.len() <= MOST && octets <= TEXT).then(|| labels.iter().collect())
    }

    /// True if all its labels are among these.
    pub fn selects(&self, labels: &Labels) -> bool {
        labels.have_all(&self.labels)
    }

    /// How much work it is to compare a pod with it, in comparisons with a few labels.
    pub fn work(&self) -> usize {
        1 + self.labels.0.len() / FEW
    }

    /// As the parameter `labelSelector` of a list has it, keys ascending.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Selector {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let labels = labels.into_iter();
        let labels: BTreeMap<String, String> = labels
            .map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().to_owned()))
            .collect();
        let terms: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        Self {
            text: terms.join(",").into(),
            labels: labels.iter().collect(),
        }
    }
}

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

    fn labels<const N: usize>(labels: [(&str, &str); N]) -> Labels {
        labels.into_iter().collect()
    }

    #[test]
    fn a_selector_needs_each_of_its_labels_with_its_value_and_keeps_their_text() {
        let pod = labels([("app", "web"), ("tier", "front"), ("zone", "a")]);
        assert!(pod.have_all(&labels([("zone", "a"), ("app", "web")])));
        assert!(!pod.have_all(&labels([("app", "web"), ("tier", "back")])));
        assert!(!pod.have_all(&labels([("web", "app")])));
        assert!(!labels([("app", "web")]).have_all(&pod));
        assert!(pod.have_all(&labels([])) && labels([]) == Labels::default());
        assert_eq!(
            labels([("a", "1"), ("b", "2")]),
            labels([("b", "2"), ("a", "1")]),
            "in any order"
        );
        let selector: Selector = [("tier", "front"), ("app", "web")].into_iter().collect();
        assert_eq!(selector.as_str(), "app=web,tier=front");
        assert!(selector.selects(&pod) && !selector.selects(&labels([("app", "web")])));
        assert!(Selector::default().selects(&Labels::default()));
    }

    #[test]
    fn a_pod_with_more_labels_than_are_kept_is_picked_by_every_selector() {
        let many = |count| (0..count).map(|number| (number.to_string(), "x"));
        let picks = |count| Labels::of_pod(many(count)).have_all(&labels([("app", "web")]));
        assert!(!picks(MOST) && picks(MOST + 1));
    }

    #[test]
    fn a_selector_with_more_labels_or_text_than_are_kept_is_not_kept() {
        let many = |count: usize, value: &str| -> BTreeMap<String, String> {
            (0..count)
                .map(|number| (format!("{number:04}"), value.to_owned()))
                .collect()
        };
        for (labels, is_kept) in [
            (many(1, "x"), true),
            (many(MOST, "x"), true),
            (many(MOST + 1, "x"), false),
            (many(64, &"x".repeat(60)), true),
            (many(65, &"x".repeat(60)), false),
        ] {
            assert_eq!(
                Selector::of_service(&labels).is_some(),
                is_kept,
                "{} labels",
                labels.len()
            );
        }
    }

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
