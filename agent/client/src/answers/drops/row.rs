//! A row of denied flows, and the style of its outcome.

use crate::shared::drops::Dropped;
use crate::shared::screen::{BAD, CAUTION, ELSEWHERE};
use clap::builder::styling::Style;
use epguard_common::Outcome;

/// A kind of denied flows, and the nodes that count it; no nodes on one node.
#[derive(Debug, Clone)]
pub struct DropsRow {
    /// The counts.
    pub dropped: Dropped,
    /// Names of the nodes.
    pub nodes: String,
}

impl DropsRow {
    /// The row of a node's own table.
    pub fn of_one_node(dropped: &Dropped) -> Self {
        Self {
            dropped: dropped.clone(),
            nodes: String::new(),
        }
    }
}

/// The style of an outcome, by its meaning; none for one of another version.
pub(super) fn style_of(outcome: &str) -> Style {
    for (styled, style) in [
        (Outcome::Dropped, BAD),
        (Outcome::Rejected, BAD),
        (Outcome::Observed, CAUTION),
        (Outcome::Redirected, ELSEWHERE),
    ] {
        if outcome == styled.as_str() {
            return style;
        }
    }
    Style::new()
}
