//! Labels of pods, and the selectors of Services.

use super::text::{Text, hash};
use std::collections::BTreeMap;
use std::sync::Arc;

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
            return Self(Arc::from([EVERY]));
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
        Self(Arc::from(labels))
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
}
