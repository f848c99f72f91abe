//! Watches of the API: one task per watch, all of them into one channel.
//!
//! ```text
//! protocol (what to ask next) -> session (asks) -> stream, list (read) -> Message -> the agent's main loop
//! ```
//!
//! Watches are raw instead of kube-runtime's for two reasons. Bookmarks must be seen, because they show up to where a
//! stream is complete; and one object that doesn't parse must not end a stream.

mod backoff;
mod beside;
mod collection;
mod confirm;
mod failure;
mod line;
mod lines;
mod list;
mod open;
mod orders;
mod protocol;
mod recovery;
mod session;
mod stream;
#[cfg(test)]
mod tests;

pub use failure::Failure;
pub use list::list_once;
pub use orders::Watches;

use collection::Collection;
use epguard_core::facts::{Change, Fact, Name, Object, Visitor, WATCHED_NODES, Watched};
use epguard_core::freshness::Proof;
use recovery::Server;
use session::{Narrowing, Session};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Reads `CLOCK_BOOTTIME`, which dates the proofs.
pub type Clock = fn() -> Duration;

/// A message of a watch to the main loop.
#[derive(Debug)]
pub struct Message {
    /// The watch.
    pub watch: Watched,
    /// What it reports.
    pub event: Event,
}

/// What a watch reports.
#[derive(Debug)]
pub enum Event {
    /// A list or a change.
    Fact {
        /// When it was read to its end.
        received: Instant,
        /// The resourceVersion of the list or of the event.
        rv: u64,
        /// The content.
        fact: Box<Fact>,
    },
    /// A bookmark: everything up to this resourceVersion has been sent. A repeated one proves nothing: the server sends
    /// it by a timer.
    Progress(u64),
    /// The facts up to here are complete as of a moment.
    Proven {
        /// The moment, of `CLOCK_BOOTTIME`.
        as_of: Duration,
        /// What proves it.
        by: Proof,
    },
    /// The API server has shown changes that the watch lacks and did not receive in time: its earlier proofs are
    /// void.
    Behind,
    /// A confirmation that was asked for failed, with cause and remedy in one line; the watch itself goes on.
    Unconfirmed(String),
    /// The API is older than its earlier answers, as after a restore of etcd: nothing known holds any more. A list of
    /// this watch follows. The observation, in one line.
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
    /// An object, an annotation of one, or a line that could not be read, with the error in one line; the stream
    /// continues without it.
    Skipped(String),
}

/// Starts the watches of the agent on `node`, and that of the mode policy's `ConfigMap` if one is named. They run until the handle is
/// dropped or the receiver is gone.
#[must_use]
pub fn start(
    (client, clock): (&kube::Client, Clock),
    (node, mode_policy): (&str, Option<&Name>),
    tx: &mpsc::Sender<Message>,
) -> Watches {
    let server = &Server::default();
    let mut watches = Watches::default();
    let ids = Watched::ALWAYS.into_iter().chain(mode_policy.map(|_| Watched::ModePolicy));
    for id in ids {
        let one = mode_policy.filter(|_| id == Watched::ModePolicy);
        id.visit(Start {
            connection: (client.clone(), clock),
            outbox: (id, tx.clone()),
            server,
            node,
            one,
            watches: &mut watches,
        });
    }
    watches
}

/// Starts one watch.
struct Start<'a> {
    connection: (kube::Client, Clock),
    outbox: (Watched, mpsc::Sender<Message>),
    server: &'a Server,
    node: &'a str,
    /// The only object to watch; none: all.
    one: Option<&'a Name>,
    watches: &'a mut Watches,
}

impl Visitor for Start<'_> {
    type Output = ();

    fn visit<O: Object>(self, fact: fn(Change<O>) -> Fact) {
        let id = self.outbox.0;
        let collection = self.one.map_or_else(Collection::all::<O>, Collection::one::<O>);
        let mut session = Session::new(self.connection, self.outbox, (collection, fact), self.server);
        session.narrowing = (id == Watched::Nodes).then(|| Narrowing {
            name: self.node.to_owned(),
            most: WATCHED_NODES,
            again: None,
        });
        self.watches.orders.insert(id, session.orders.clone());
        self.watches.tasks.spawn(session.run());
    }
}
