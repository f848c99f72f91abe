//! What the watches have shown in whole.

use crate::facts::{Change::Reset, Fact};
use std::collections::BTreeSet;

/// Which lists have been seen at least once. Before all have, absence could be anything.
#[derive(Debug, Clone, Default)]
pub struct Synced(BTreeSet<List>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Pods,
    Slices,
    Services,
    Nodes,
    Namespaces,
}

impl List {
    const COUNT: usize = 5;
}

impl Synced {
    /// Whether all there is has been shown once.
    pub fn is_complete(&self) -> bool {
        self.0.len() == List::COUNT
    }

    /// Takes note of a list.
    pub fn note(&mut self, fact: &Fact) {
        self.0.extend(match fact {
            Fact::Pod(Reset(_)) => Some(List::Pods),
            Fact::Slice(Reset(_)) => Some(List::Slices),
            Fact::Service(Reset(_)) => Some(List::Services),
            Fact::Node(Reset(_)) => Some(List::Nodes),
            Fact::Namespace(Reset(_)) => Some(List::Namespaces),
            _ => None,
        });
    }
}
