//! How much is measured.

use super::size::BIG;
use std::time::Duration;

/// How long and how often.
pub(crate) struct Effort {
    /// A row that counts over a time.
    pub(crate) period: Duration,
    /// Pods that die, per row.
    pub(crate) deaths: u32,
    /// Nodes that join.
    pub(crate) nodes: u32,
    /// Pods of the rolling update that are replaced while waits are measured, before those whose cost is measured.
    pub(crate) watched: u32,
    /// Pods of the rolling update whose cost is measured.
    pub(crate) replaced: u32,
}

impl Effort {
    pub(crate) fn full() -> Self {
        Self { period: Duration::from_mins(1), deaths: 100, nodes: 4, watched: 500, replaced: BIG - 500 }
    }

    pub(crate) fn quick() -> Self {
        Self { period: Duration::from_secs(5), deaths: 5, nodes: 1, watched: 20, replaced: 50 }
    }
}
