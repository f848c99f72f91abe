//! Labels of pods.

use super::{hash, text::shared_hashes};
use std::sync::Arc;

/// Labels that are kept of a pod.
const MOST: usize = 256;

/// Stands for every label.
const EVERY: u64 = 0;

/// Labels of a pod, or those that a selector asks for. Only a hash of each key with its value is kept, for there are many
/// pods. Two labels with one hash (one in 2^64 pairs) make a Service select one more pod of its own namespace: that lifts
/// denials, until a narrow list of the Service's pods lacks this one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Labels(Arc<[u64]>);

impl Labels {
    /// Those of a pod. One with more than are kept may have any: each selector of its namespace picks it.
    pub fn of_pod<K: AsRef<str>, V: AsRef<str>>(labels: impl ExactSizeIterator<Item = (K, V)>) -> Self {
        if labels.len() > MOST {
            return Self(shared_hashes(&[EVERY]));
        }
        labels.collect()
    }

    /// True if there are more than are kept.
    #[must_use]
    pub fn are_cut(&self) -> bool {
        self.0.first() == Some(&EVERY)
    }

    /// True if all labels of the selector are among these, or may be.
    #[must_use]
    pub fn have_all(&self, selector: &Self) -> bool {
        self.are_cut() || selector.0.iter().all(|label| self.0.binary_search(label).is_ok())
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let labels = labels.into_iter().map(|(key, value)| hash((key.as_ref(), value.as_ref())));
        let mut labels: Vec<u64> = labels.collect();
        labels.sort_unstable();
        Self(shared_hashes(&labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels<const N: usize>(labels: [(&str, &str); N]) -> Labels {
        labels.into_iter().collect()
    }

    #[test]
    fn a_selector_needs_each_of_its_labels_with_its_value() {
        let pod = labels([("app", "web"), ("tier", "front"), ("zone", "a")]);
        assert!(pod.have_all(&labels([("zone", "a"), ("app", "web")])));
        assert!(!pod.have_all(&labels([("app", "web"), ("tier", "back")])));
        assert!(!pod.have_all(&labels([("web", "app")])));
        assert!(!labels([("app", "web")]).have_all(&pod));
        assert!(pod.have_all(&labels([])) && labels([]) == Labels::default());
        assert_eq!(labels([("a", "1"), ("b", "2")]), labels([("b", "2"), ("a", "1")]), "in any order");
    }

    #[test]
    fn a_pod_with_more_labels_than_are_kept_is_picked_by_every_selector() {
        let many = |count| (0..count).map(|number| (number.to_string(), "x"));
        let picks = |count| Labels::of_pod(many(count)).have_all(&labels([("app", "web")]));
        assert!(!picks(MOST) && picks(MOST + 1));
    }
}
