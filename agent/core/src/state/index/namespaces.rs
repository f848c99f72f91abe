//! The annotation modes of all Namespaces.

use crate::facts::{Change, Namespace, Text};
use epguard_common::Mode;
use std::collections::{BTreeSet, HashMap};

/// The bounds of all Namespaces.
#[derive(Debug, Clone, Default)]
pub struct Namespaces(HashMap<Text, Mode>);

impl Namespaces {
    /// Applies a change from the watch; returns the names of those whose bound changed.
    pub fn apply(&mut self, change: Change<Namespace>) -> BTreeSet<Text> {
        match change {
            Change::Applied(Namespace { name, bound }) => match self.0.insert(name.clone(), bound) {
                Some(before) if before == bound => BTreeSet::new(),
                _ => BTreeSet::from([name]),
            },
            Change::Deleted(Namespace { name, .. }) => {
                self.0.remove(&name);
                BTreeSet::from([name])
            }
            Change::Reset(all) => {
                let after = all.into_iter().map(|Namespace { name, bound }| (name, bound)).collect();
                let before = std::mem::replace(&mut self.0, after);
                let names = before.keys().chain(self.0.keys());
                names.filter(|name| before.get(*name) != self.0.get(*name)).cloned().collect()
            }
        }
    }

    /// Most that the Namespace allows: `observe` while it is unknown.
    pub(in crate::state) fn bound(&self, name: &str) -> Mode {
        self.0.get(name).copied().unwrap_or(Mode::Observe)
    }
}
