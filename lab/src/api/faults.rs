//! What can go wrong with an API server, switched on and off while it runs.

use super::Kind;
use std::collections::BTreeSet;
use std::time::Duration;

/// The faults in force. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Faults {
    /// Connections are closed, open streams with them.
    pub down: bool,
    /// Requests are accepted and never answered; open streams go silent.
    pub hang: bool,
    /// 403 for these kinds.
    pub forbidden: BTreeSet<Kind>,
    /// Streams send no bookmarks but the one that ends the initial events.
    pub no_bookmarks: bool,
    /// 400 for `sendInitialEvents`, as servers before 1.32 answer.
    pub no_streaming_lists: bool,
    /// Before every answer.
    pub delay: Duration,
}
