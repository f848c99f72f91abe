//! What the thread of the node is asked to do, and the events that it has to carry out.

use crate::node::netlink::NetworkChange;
use std::time::Duration;

/// What the thread is asked to do.
#[derive(Debug)]
pub enum NodeOrder {
    /// Hook what appeared, or drop what is gone.
    Event(NodeEvent),
    /// Flows are redirected from now on, or may be; or no longer.
    Redirect(bool),
    /// Do the periodic work.
    Tick,
    /// End.
    End,
}

/// An event of netlink.
#[derive(Debug, Clone)]
pub struct NodeEvent {
    /// Each has a greater one than the one before; the first has 1.
    pub number: u64,
    /// When it was received, `CLOCK_BOOTTIME`.
    pub received: Duration,
    /// What happened.
    pub change: NetworkChange,
}
