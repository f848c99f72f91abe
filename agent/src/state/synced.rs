//! What the watches have shown in whole.

use super::Scope;
use crate::facts::{Change::Reset, Fact, PodSource};
use std::collections::BTreeSet;

/// Which kinds have been listed at least once. Before all have, absence could be anything.
#[derive(Debug, Clone, Default)]
pub struct Synced {
    pods: BTreeSet<PodSource>,
    slices: bool,
    services: bool,
    nodes: bool,
}

impl Synced {
    /// Whether all there is has been shown once.
    pub fn is_complete(&self, scope: Scope) -> bool {
        let sources = match scope {
            Scope::Cluster | Scope::Node => 1,
            Scope::Terminal => 2,
        };
        self.pods.len() >= sources && self.slices && self.services && self.nodes
    }

    /// Takes note of a list.
    pub fn note(&mut self, fact: &Fact) {
        match fact {
            Fact::Pod(source, Reset(_)) => {
                self.pods.insert(*source);
            }
            Fact::Slice(Reset(_)) => self.slices = true,
            Fact::Service(Reset(_)) => self.services = true,
            Fact::Node(Reset(_)) => self.nodes = true,
            _ => {}
        }
    }
}
