//! The history of one IP, as it goes over the status socket.

use crate::state::View;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The history of an IP, with the clocks to read it by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Chronicle {
    /// The IP.
    pub ip: IpAddr,
    /// Changes, the oldest first; empty if there were none since the history began.
    pub steps: Vec<Step>,
    /// The current view.
    pub view: View,
    /// When the first whole list was known, ms; its objects may be older.
    pub began_ms: u64,
    /// When the history was requested, ms of `CLOCK_BOOTTIME`: the clock of the steps.
    pub now_ms: u64,
    /// The same moment in ms since 1970, by the node's clock.
    pub wall_ms: i64,
    /// True if earlier steps were dropped to make room.
    pub truncated: bool,
    /// The node's mode now, `off`, `observe` or `enforce`, and whether its lease is over.
    pub mode: String,
}

/// What the agent knew about an IP from a moment on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// When the agent had processed the change, ms of `CLOCK_BOOTTIME`.
    pub at_ms: u64,
    /// The newest resourceVersion that the agent had seen.
    pub rv: u64,
    /// The view from then on.
    pub view: View,
}

impl Chronicle {
    /// Since when the IP's history is known, ms of `CLOCK_BOOTTIME`.
    #[must_use]
    pub fn since_ms(&self) -> u64 {
        match self.steps.first() {
            Some(first) if self.truncated => first.at_ms,
            None if self.truncated => self.now_ms,
            _ => self.began_ms,
        }
    }
}
