//! Watches that have shown a whole list.

use crate::facts::Watched;
use std::collections::BTreeSet;

/// The lists that have been seen at least once. Before all have, absence can have any cause.
#[derive(Debug, Clone, Default)]
pub struct Synced {
    listed: BTreeSet<Watched>,
    /// Whether all endpoints have been judged on these lists.
    is_judged: bool,
}

impl Synced {
    /// True if each of [`Watched::ALWAYS`] has been listed once.
    pub fn is_listed(&self) -> bool {
        Watched::ALWAYS.iter().all(|watched| self.listed.contains(watched))
    }

    /// True if, besides, all endpoints have been judged since.
    pub fn is_complete(&self) -> bool {
        self.is_judged && self.is_listed()
    }

    /// Stores that a watch has shown a whole list.
    pub fn note(&mut self, watched: Watched) {
        self.listed.insert(watched);
    }

    /// Stores that all endpoints have been judged on the lists so far.
    pub fn note_judged(&mut self) {
        self.is_judged = self.is_listed();
    }
}
