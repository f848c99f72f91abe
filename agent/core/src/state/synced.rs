//! What the watches have shown in whole.

use crate::facts::{Fact, Watched};
use std::collections::BTreeSet;

/// Which lists have been seen at least once. Before all have, absence could be anything.
#[derive(Debug, Clone, Default)]
pub struct Synced(BTreeSet<Watched>);

impl Synced {
    /// Whether all there is has been shown once.
    pub fn is_complete(&self) -> bool {
        Watched::ALWAYS.iter().all(|watched| self.0.contains(watched))
    }

    /// Takes note of a list.
    pub fn note(&mut self, fact: &Fact) {
        self.0.extend(Watched::listed_by(fact));
    }
}
