//! The selectors of Services.

use super::{Labels, Text};
use std::collections::BTreeMap;
use std::fmt;

/// Labels that the selected pods have; by default none, which selects all. Their text is kept, as requests for such pods need it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Selector {
    text: Text,
    labels: Labels,
}

impl Selector {
    /// True if all its labels are among these.
    #[must_use]
    pub fn selects(&self, labels: &Labels) -> bool {
        labels.have_all(&self.labels)
    }

    /// As the parameter `labelSelector` of a list has it, keys ascending.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Selector {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let labels = labels.into_iter();
        let labels: BTreeMap<String, String> =
            labels.map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().to_owned())).collect();
        let terms: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Self { text: terms.join(",").into(), labels: labels.iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_selects_by_its_labels_and_keeps_their_text() {
        let selector: Selector = [("tier", "front"), ("app", "web")].into_iter().collect();
        assert_eq!(selector.as_str(), "app=web,tier=front");
        let selects = |labels: &[(&str, &str)]| selector.selects(&labels.iter().copied().collect());
        assert!(selects(&[("app", "web"), ("tier", "front"), ("zone", "a")]));
        assert!(!selects(&[("app", "web")]));
        assert!(Selector::default().selects(&Labels::default()));
    }
}
