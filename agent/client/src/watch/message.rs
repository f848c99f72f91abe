//! What the watches send to the agent's main loop.

use epguard_core::facts::{Fact, NodeSeen, Watched};
use epguard_core::freshness::Proof;
use std::time::Duration;
use tokio::time::Instant;

/// Reads `CLOCK_BOOTTIME`, which dates the proofs.
pub type Clock = fn() -> Duration;

/// A message of a watch to the main loop.
#[derive(Debug)]
pub struct Message {
    /// The watch.
    pub watch: Watched,
    /// What it reports.
    pub event: WatchEvent,
}

/// What a watch reports.
#[derive(Debug)]
pub enum WatchEvent {
    /// A list or a change.
    Fact {
        /// When it was read to its end. While the loop takes no more messages: since when it does
        /// not.
        received: Instant,
        /// When a list of everything was requested, `CLOCK_BOOTTIME`; none for other facts.
        sent: Option<Duration>,
        /// The resourceVersion of the list or of the event.
        rv: u64,
        /// The content.
        fact: Box<Fact>,
    },
    /// A bookmark: everything up to this resourceVersion has been sent. A repeated one proves
    /// nothing: the server sends it by a timer.
    Progress(u64),
    /// The facts up to here are complete as of a moment.
    Proven {
        /// The moment, of `CLOCK_BOOTTIME`.
        as_of: Duration,
        /// What proves it.
        by: Proof,
    },
    /// The API server has shown changes that the watch lacks and did not receive in time: its
    /// earlier proofs are void.
    Behind,
    /// Whether a Node is there, as [`Watches::look_at_node`](super::Watches::look_at_node) has
    /// asked.
    NodeSeen(NodeSeen),
    /// A request beside the watch failed: a freshness check, a narrow list, or a look at a Node.
    /// With cause and remedy in one line; the watch itself goes on.
    CheckFailed(String),
    /// The API is older than its earlier answers, as after a restore of etcd: nothing known holds
    /// any more. A list of this watch follows. The observation, in one line.
    Rewound(String),
    /// Everything was listed and changes arrive as they happen.
    Up,
    /// The watch sees no changes any more. It retries by itself, so this repeats while it fails.
    Down {
        /// The API server does not let the account read this.
        refused: bool,
        /// Cause and remedy in one line.
        error: String,
    },
    /// An object, an annotation of one, or a line that could not be read, with the error in one
    /// line; the stream continues without it.
    Skipped(String),
}
