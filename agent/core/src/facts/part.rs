//! Narrow lists: the part of a collection that a selector matches.

use super::{Name, Selector, Text};
use std::collections::BTreeSet;
use std::time::Duration;

/// The objects that a narrow list asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// The pods of a namespace with these labels, on one node or on any.
    Labelled {
        /// The namespace.
        namespace: Text,
        /// The labels.
        selector: Selector,
        /// The node; none: any.
        node: Option<Text>,
    },
    /// The pod of a namespace and name.
    Named(Name),
    /// The pods on a node.
    OnNode(Text),
    /// The slices of some Services of a namespace.
    SlicesOf {
        /// The namespace.
        namespace: Text,
        /// The names of the Services.
        services: BTreeSet<Text>,
    },
}

/// A consistent list of the objects that a selection matches.
#[derive(Debug, Clone)]
pub struct Part<T> {
    /// What was asked for.
    pub selection: Selection,
    /// When it was requested, on the clock of the state: it holds every earlier change.
    pub sent: Duration,
    /// The objects, without those in `later`.
    pub objects: Vec<T>,
    /// Objects that the watch has shown in a later state than the list, or as deleted. The list proves nothing of them.
    pub later: BTreeSet<Name>,
}
