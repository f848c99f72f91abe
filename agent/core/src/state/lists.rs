//! Lists, which are applied a part at a time, so that no list keeps the agent from anything else
//! for long.
//!
//! ```text
//! list -> scanned -> each object applied, denials that it contradicts end -> all endpoints that may be denied judged
//! ```
//!
//! Until the end, denials end at once, and none begins: an object further down the list may
//! contradict it. Facts of other watches, and their lists, are applied meanwhile.

use super::breaker::ReceivedList;
use super::index::listed_objects::ListedObjects;
use crate::facts::{ObjectName, Watched};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The lists that are applied in part, and those that have been applied in whole.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    /// Lists of which a part is applied.
    half_applied: BTreeMap<Watched, HalfAppliedList>,
    /// The collections that have been listed at least once. Before all have, absence can have any
    /// cause.
    listed: BTreeSet<Watched>,
    /// Whether these are all, each applied in whole.
    are_all_listed: bool,
}

/// A list of which a part is applied.
#[derive(Debug, Clone)]
pub struct HalfAppliedList {
    /// When it came.
    pub received: Duration,
    /// What it lists, and when it was requested.
    pub request: ReceivedList,
    /// What is left of it.
    pub objects: ListedObjects,
    /// Of a narrow list: the Services that its objects concern.
    pub concerned: BTreeSet<ObjectName>,
}

impl Lists {
    /// Begins a list.
    pub fn begin(&mut self, list: HalfAppliedList) {
        self.half_applied.insert(list.request.kind, list);
    }

    /// Ends a list of the collection. Returns it.
    pub fn end(&mut self, kind: Watched) -> Option<HalfAppliedList> {
        self.half_applied.remove(&kind)
    }

    /// The list of which a part is applied next.
    pub fn next_mut(&mut self) -> Option<&mut HalfAppliedList> {
        self.half_applied.values_mut().next()
    }

    /// Stores that a list of everything of the collection was applied in whole.
    pub fn set_listed(&mut self, kind: Watched) {
        self.listed.insert(kind);
        let has_all = Watched::ALWAYS
            .iter()
            .all(|watched| self.listed.contains(watched));
        let is_last = self
            .half_applied
            .values()
            .all(|list| list.request.part.is_some());
        self.are_all_listed |= has_all && is_last;
    }

    /// True if every watch has shown everything once.
    pub const fn are_all_listed(&self) -> bool {
        self.are_all_listed
    }

    /// True if a list of the collection is applied only in part: its further facts have to wait.
    pub fn is_applying(&self, kind: Watched) -> bool {
        self.half_applied.contains_key(&kind)
    }

    /// True between the parts of a list.
    pub fn is_half_applied(&self) -> bool {
        !self.half_applied.is_empty()
    }

    /// When the first list came of which only a part is applied.
    pub fn half_applied_since(&self) -> Option<Duration> {
        self.half_applied.values().map(|list| list.received).min()
    }

    /// Forgets the lists that are applied in part.
    pub fn drop_half_applied(&mut self) {
        self.half_applied.clear();
    }
}
