//! Watches of the API: one task per watch, all of them into one channel.
//!
//! ```text
//! protocol (what to ask next) -> session (asks, reads) -> wire (parses) -> Message -> the agent's main loop
//! ```
//!
//! Watches are raw instead of kube-runtime's for two reasons. Bookmarks must be seen, because they show up to where a
//! stream is complete; and one object that doesn't parse must not end a stream.

mod answers;
mod beside;
mod client;
mod collection;
mod confirm;
mod failure;
mod line;
mod lines;
mod list;
mod narrowing;
mod once;
mod orders;
mod outbox;
mod pace;
mod protocol;
mod recovery;
mod session;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{client, contexts};
pub use once::{Refusal, list_once, refusal};
pub use orders::Watches;
pub use pace::Pace;

use crate::shared::clock::boot;
use collection::Collection;
use epguard_core::facts::{Change, Fact, Name, Object, Visitor, WATCHED_NODES, Watched};
use epguard_core::freshness::Proof;
use narrowing::Narrowing;
use orders::Orders;
use outbox::Outbox;
use recovery::{Recovery, Server};
use session::Session;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, task::JoinSet};

/// Reads `CLOCK_BOOTTIME`, which dates the proofs.
pub type Clock = fn() -> Duration;

/// A message of a watch to the main loop.
#[derive(Debug)]
pub enum Message {
    /// A list or a change.
    Fact {
        /// The watch that received it.
        watch: Watched,
        /// When it was read to its end.
        received: Instant,
        /// The resourceVersion of the list or of the event.
        rv: u64,
        /// The content.
        fact: Box<Fact>,
    },
    /// A bookmark: everything up to `rv` has been sent. A repeated `rv` proves nothing: the server sends it by a
    /// timer.
    Progress {
        /// The watch that received it.
        watch: Watched,
        /// Its resourceVersion.
        rv: u64,
    },
    /// The facts up to here are complete as of a moment.
    Proven {
        /// Which watch.
        watch: Watched,
        /// The moment, of `CLOCK_BOOTTIME`.
        as_of: Duration,
        /// What proves it.
        by: Proof,
    },
    /// The API server has shown changes that the watch lacks and did not receive in time: its earlier proofs are
    /// void.
    Behind(Watched),
    /// A confirmation that was asked for failed; the watch itself goes on.
    Unconfirmed {
        /// Which watch.
        watch: Watched,
        /// Cause and remedy in one line.
        error: String,
    },
    /// The API is older than its earlier answers, as after a restore of etcd: nothing known holds any more. A list of
    /// this watch follows.
    Rewound {
        /// The watch that noticed it.
        watch: Watched,
        /// The observation, in one line.
        error: String,
    },
    /// Everything was listed and changes arrive as they happen.
    Up(Watched),
    /// The watch sees no changes any more. It retries by itself, so this repeats while it fails.
    Down {
        /// Which watch.
        watch: Watched,
        /// The API server does not let the account read this.
        refused: bool,
        /// Cause and remedy in one line.
        error: String,
    },
    /// An object, an annotation of one, or a line that could not be read; the stream continues without it.
    Skipped {
        /// From which watch.
        watch: Watched,
        /// The object and the error, in one line.
        what: String,
    },
}

/// Starts the watches of the agent on `node`, and that of the mode policy's `ConfigMap` if one is named. They run until the handle is
/// dropped or the receiver is gone.
#[must_use]
pub fn start(
    client: &kube::Client,
    (node, mode_policy): (&str, Option<&Name>),
    tx: &mpsc::Sender<Message>,
) -> Watches {
    start_by(boot, client, (node, mode_policy), tx)
}

/// Like [`start`], with another clock, such as a model's.
#[must_use]
pub fn start_by(
    clock: Clock,
    client: &kube::Client,
    (node, mode_policy): (&str, Option<&Name>),
    tx: &mpsc::Sender<Message>,
) -> Watches {
    let mut tasks = JoinSet::new();
    let mut orders = BTreeMap::new();
    let server = Server::default();
    let ids = Watched::ALWAYS
        .into_iter()
        .chain(mode_policy.map(|_| Watched::ModePolicy));
    for id in ids {
        let one = mode_policy.filter(|_| id == Watched::ModePolicy);
        let own = Arc::new(Orders::default());
        orders.insert(id, Arc::clone(&own));
        let outbox = Outbox::new(id, tx.clone());
        let mut session = Session::new(client.clone(), outbox, own, Recovery::new(&server)).with_clock(clock);
        if id == Watched::Nodes {
            session = session.narrowed_by(Narrowing::to(node, WATCHED_NODES));
        }
        let tasks = &mut tasks;
        id.visit(Start { session, one, tasks });
    }
    Watches::new(orders, tasks)
}

/// Starts one watch.
struct Start<'a> {
    session: Session,
    /// The only object to watch; none: all.
    one: Option<&'a Name>,
    tasks: &'a mut JoinSet<()>,
}

impl Visitor for Start<'_> {
    type Output = ();

    fn visit<O: Object>(self, fact: fn(Change<O>) -> Fact) {
        let collection = self.one.map_or_else(Collection::all::<O>, Collection::one::<O>);
        self.tasks.spawn(self.session.run(collection, fact));
    }
}
