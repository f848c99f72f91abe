//! Watches that have shown a whole list.

use crate::facts::{Fact, Watched};
use std::collections::BTreeSet;

/// The lists that have been seen at least once. Before all have, absence can have any cause.
#[derive(Debug, Clone, Default)]
pub struct Synced(BTreeSet<Watched>);

impl Synced {
    /// True if each of [`Watched::ALWAYS`] has been listed once.
    pub fn is_complete(&self) -> bool {
        Watched::ALWAYS.iter().all(|watched| self.0.contains(watched))
    }

    /// Stores which list the fact is, if it is one.
    pub fn note(&mut self, fact: &Fact) {
        self.0.extend(Watched::listed_by(fact));
    }
}
