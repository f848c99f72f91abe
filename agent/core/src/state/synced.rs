//! Watches that have shown a whole list.

use crate::facts::Watched;
use std::collections::BTreeSet;

/// The lists that have been seen at least once. Before all have, absence can have any cause.
#[derive(Debug, Clone, Default)]
pub struct Synced(BTreeSet<Watched>);

impl Synced {
    /// True if each of [`Watched::ALWAYS`] has been listed once.
    pub fn is_complete(&self) -> bool {
        Watched::ALWAYS.iter().all(|watched| self.0.contains(watched))
    }

    /// Stores that a watch has shown a whole list.
    pub fn note(&mut self, watched: Watched) {
        self.0.insert(watched);
    }
}
