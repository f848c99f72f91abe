//! The API's side of the story: one task per watch, all of them into one channel.
//!
//! ```text
//! protocol (what to ask next) -> session (asks, reads) -> wire (parses) -> Message -> the agent's main loop
//! ```
//!
//! Watches are raw instead of kube-runtime's: bookmarks must be seen, because they show how far a stream has told
//! everything, and one object that doesn't parse must not end a stream.

mod answers;
mod beside;
mod client;
mod collection;
mod confirm;
mod failure;
mod list;
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

pub use client::client;
pub use once::{Refusal, list_once};
pub use orders::Watches;
pub use pace::Pace;

use crate::shared::clock::boot;
use collection::Collection;
use epguard_core::facts::{Fact, Fleet, Name, Namespace, Node, Pod, Service, Slice, Watched};
use epguard_core::freshness::Proof;
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

/// Within which time all agents of a cluster ask for a list that the same event makes them want.
pub const SPREAD: Duration = Duration::from_secs(2);

/// Reads `CLOCK_BOOTTIME`, by which proofs are dated.
pub type Clock = fn() -> Duration;

/// What a watch tells the main loop.
#[derive(Debug)]
pub enum Message {
    /// Something was listed or changed.
    Fact {
        /// Who says so.
        watch: Watched,
        /// When it was read to its end.
        received: Instant,
        /// The resourceVersion of the list or of the event.
        rv: u64,
        /// What.
        fact: Box<Fact>,
    },
    /// A bookmark: everything up to `rv` has been sent. A repeated `rv` proves nothing, the server sends it by a timer.
    Progress {
        /// Whose bookmark.
        watch: Watched,
        /// Its resourceVersion.
        rv: u64,
    },
    /// What the watch has told up to here is everything there was at a moment.
    Proven {
        /// Which watch.
        watch: Watched,
        /// The moment, of `CLOCK_BOOTTIME`.
        as_of: Duration,
        /// What shows it.
        by: Proof,
    },
    /// The API server has shown changes that the watch lacks, and did not catch up with in time: what was proven before is
    /// void.
    Behind(Watched),
    /// A confirmation that was asked for failed; the watch itself goes on.
    Unconfirmed {
        /// Which watch.
        watch: Watched,
        /// Cause and remedy in one line.
        error: String,
    },
    /// The API is older than what it has shown before, as after a restore of etcd: nothing known holds any more. A
    /// list of this watch follows.
    Rewound {
        /// Who noticed.
        watch: Watched,
        /// What it noticed, in one line.
        error: String,
    },
    /// Everything was listed and changes arrive as they happen.
    Up(Watched),
    /// Changes are not seen any more; the watch retries by itself, so this repeats while it fails.
    Down {
        /// Which watch.
        watch: Watched,
        /// Cause and remedy in one line.
        error: String,
    },
    /// An object, an annotation of one, or a line that could not be read; the stream goes on without it.
    Skipped {
        /// From which watch.
        watch: Watched,
        /// What it was and why, in one line.
        what: String,
    },
}

/// Starts the watches, and that of the `ConfigMap` of the fleet if one is named. They run until the handle is dropped or the
/// receiver is gone.
#[must_use]
pub fn start(client: &kube::Client, fleet: Option<&Name>, tx: &mpsc::Sender<Message>) -> Watches {
    start_by(boot, client, fleet, tx)
}

/// The same by another clock, such as a model's.
#[must_use]
pub fn start_by(
    clock: Clock,
    client: &kube::Client,
    fleet: Option<&Name>,
    tx: &mpsc::Sender<Message>,
) -> Watches {
    let mut tasks = JoinSet::new();
    let mut orders = BTreeMap::new();
    let server = Server::default();
    let ids = Watched::ALWAYS
        .into_iter()
        .chain(fleet.map(|_| Watched::ModePolicy));
    for id in ids {
        let own = Arc::new(Orders::default());
        orders.insert(id, Arc::clone(&own));
        let outbox = Outbox::new(id, tx.clone());
        let session = Session::new(client.clone(), outbox, own, Recovery::new(&server)).with_clock(clock);
        match id {
            Watched::Pods => tasks.spawn(session.run(Collection::all::<Pod>(), Fact::Pod)),
            Watched::EndpointSlices => tasks.spawn(session.run(Collection::all::<Slice>(), Fact::Slice)),
            Watched::Services => tasks.spawn(session.run(Collection::all::<Service>(), Fact::Service)),
            Watched::Nodes => tasks.spawn(session.run(Collection::all::<Node>(), Fact::Node)),
            Watched::Namespaces => tasks.spawn(session.run(Collection::all::<Namespace>(), Fact::Namespace)),
            Watched::ModePolicy => {
                let one = fleet.map_or_else(Collection::all::<Fleet>, Collection::one::<Fleet>);
                tasks.spawn(session.run(one, Fact::Fleet))
            }
        };
    }
    Watches::new(orders, tasks)
}
