//! What the watches have shown in whole.

use super::Scope;
use crate::facts::{Change::Reset, Fact, PodSource};
use std::collections::BTreeSet;

/// Which lists have been seen at least once. Before all have, absence could be anything.
#[derive(Debug, Clone, Default)]
pub struct Synced(BTreeSet<List>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Pods(PodSource),
    Slices,
    Services,
    Nodes,
    Namespaces,
}

impl Synced {
    /// Whether all there is has been shown once.
    pub fn is_complete(&self, scope: Scope) -> bool {
        let sources = match scope {
            Scope::Cluster | Scope::Node => 1,
            Scope::Terminal => 2,
        };
        let others = [List::Slices, List::Services, List::Nodes, List::Namespaces];
        self.0.len() >= sources + others.len()
    }

    /// Takes note of a list.
    pub fn note(&mut self, fact: &Fact) {
        self.0.extend(match fact {
            Fact::Pod(source, Reset(_)) => Some(List::Pods(*source)),
            Fact::Slice(Reset(_)) => Some(List::Slices),
            Fact::Service(Reset(_)) => Some(List::Services),
            Fact::Node(Reset(_)) => Some(List::Nodes),
            Fact::Namespace(Reset(_)) => Some(List::Namespaces),
            _ => None,
        });
    }
}
