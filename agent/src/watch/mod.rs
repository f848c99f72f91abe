//! Watches of the API: one task per watch, all of them into one channel.
//!
//! ```text
//! protocol (what to ask next) -> session (asks) -> stream, list (read) -> Message -> the agent's main loop
//! ```
//!
//! Watches are raw instead of kube-runtime's for two reasons. Bookmarks must be seen, because they
//! show up to where a stream is complete; and one object that doesn't parse must not end a stream.

mod beside;
mod collection;
mod confirm;
mod failure;
mod line;
mod lines;
mod list;
mod node_lookup;
mod protocol;
mod recovery;
mod session;
mod stream;
#[cfg(test)]
mod tests;

pub use failure::Failure;
pub use list::list_once;

use epguard_core::facts::{Fact, NodeSeen, ObjectName, Selection, Text, WATCHED_NODES, Watched};
use epguard_core::freshness::Proof;
use session::{Narrowing, Start};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

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
    /// Whether a Node is there, as [`Watches::look_at_node`] has asked.
    NodeSeen(NodeSeen),
    /// A confirmation that was asked for failed, with cause and remedy in one line; the watch
    /// itself goes on.
    Unconfirmed(String),
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

/// The running watches; dropping this ends them.
#[derive(Debug, Default)]
pub struct Watches {
    orders: BTreeMap<Watched, watch::Sender<Orders>>,
    nodes: Option<mpsc::UnboundedSender<node_lookup::Order>>,
    tasks: JoinSet<()>,
}

/// Requests to one watch that it hasn't begun to carry out; several of the same kind count as one.
#[derive(Debug, Default)]
struct Orders {
    /// The time within which a confirmation is needed.
    confirm: Option<Duration>,
    lists: Lists,
}

/// Lists that are ordered, by what they select (none: everything), each with the time over which
/// all agents spread it.
type Lists = BTreeMap<Option<Selection>, Duration>;

impl Watches {
    /// Asks for a confirmation, needed `within` that time: the longer that is, the fewer requests
    /// it takes. It results in [`Event::Proven`] or [`Event::Unconfirmed`], once the watch is up.
    pub fn confirm(&self, id: Watched, within: Duration) {
        if let Some(orders) = self.orders.get(&id) {
            orders.send_modify(|orders| orders.confirm = Some(within));
        }
    }

    /// Asks whether a Node is there, at a random moment `within` from now. It results in
    /// [`Event::NodeSeen`] or [`Event::Unconfirmed`].
    pub fn look_at_node(&self, name: Text, within: Duration) {
        // Without a receiver the watches are over.
        let _ = self.nodes.as_ref().map(|nodes| nodes.send((name, within)));
    }

    /// Asks for one more list of everything, or for a narrow one. It is requested at a random
    /// moment `within` from now, or from when the watch is up, because the same event makes all
    /// agents ask.
    ///
    /// The watch begins anew with a list of everything. During a narrow one the stream continues,
    /// and the list arrives once the stream has shown everything up to it; if a stream ends first,
    /// the next one requests it again. One that fails doesn't arrive.
    pub fn list(&self, id: Watched, selection: Option<Selection>, within: Duration) {
        if let Some(orders) = self.orders.get(&id) {
            order_list(orders, selection, within);
        }
    }

    /// Asks each watch for one more list of everything, but not the one that lists by itself.
    pub fn list_all(&self, but: Option<Watched>, within: Duration) {
        for id in self.orders.keys().filter(|id| Some(**id) != but) {
            self.list(*id, None, within);
        }
    }
}

fn order_list(orders: &watch::Sender<Orders>, selection: Option<Selection>, within: Duration) {
    orders.send_modify(|orders| {
        orders.lists.insert(selection, within);
    });
}

/// Starts the watches of the agent on `node`, and that of the mode policy's `ConfigMap` if one is
/// named. They run until the handle is dropped or the receiver is gone.
pub fn start(
    (client, clock): (&kube::Client, Clock),
    (node, mode_policy): (&str, Option<&ObjectName>),
    tx: &mpsc::Sender<Message>,
) -> Watches {
    let (server, mut watches) = (Arc::default(), Watches::default());
    for watched in Watched::ALWAYS
        .into_iter()
        .chain(mode_policy.map(|_| Watched::ModePolicy))
    {
        let narrowing = Narrowing {
            name: node.to_owned(),
            most: WATCHED_NODES,
        };
        watched.visit(Start {
            client: client.clone(),
            clock,
            watched,
            one: mode_policy.filter(|_| watched == Watched::ModePolicy),
            narrowing: (watched == Watched::Nodes).then_some(narrowing),
            messages: tx.clone(),
            server: &server,
            watches: &mut watches,
        });
    }
    let (nodes, orders) = mpsc::unbounded_channel();
    watches.nodes = Some(nodes);
    watches.tasks.spawn(node_lookup::answer(
        client.clone(),
        clock,
        orders,
        tx.clone(),
    ));
    watches
}
