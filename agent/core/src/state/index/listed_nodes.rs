//! What is known of the lists of Nodes in a large cluster.

use crate::facts::{Text, WATCHED_NODES};
use std::collections::HashSet;
use std::time::Duration;

/// What is known of the lists.
#[derive(Debug, Clone)]
pub(in crate::state) struct ListedNodes {
    /// More Nodes than this are not watched.
    pub(super) most: usize,
    /// When the last list came; none while all Nodes are watched.
    pub(super) at: Option<Duration>,
    /// Names that any list has shown.
    pub(super) seen: HashSet<Text>,
}

impl Default for ListedNodes {
    fn default() -> Self {
        Self {
            most: WATCHED_NODES,
            at: None,
            seen: HashSet::new(),
        }
    }
}
