//! Sends the messages of one watch.

use super::Message;
use epguard_core::facts::{Fact, Watched, cut};
use epguard_core::freshness::Proof;
use std::{
    fmt,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Longest line about an object that was skipped, in octets; names have at most 253 each.
const LINE: usize = 1024;

/// One watch's end of the channel. A receiver that is gone is no error: the session checks for it itself.
pub(super) struct Outbox {
    watch: Watched,
    tx: mpsc::Sender<Message>,
    up: bool,
    /// The greatest resourceVersion of a proof, and the moment of the first with it.
    newest: Option<(u64, Duration)>,
}

impl Outbox {
    pub(super) fn new(watch: Watched, tx: mpsc::Sender<Message>) -> Self {
        Self {
            watch,
            tx,
            up: false,
            newest: None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.tx.is_closed()
    }

    pub(super) fn watch(&self) -> Watched {
        self.watch
    }

    pub(super) async fn fact(&self, rv: u64, fact: Fact) {
        let (watch, received) = (self.watch, Instant::now());
        let message = Message::Fact {
            watch,
            received,
            rv,
            fact: Box::new(fact),
        };
        self.send(message).await;
    }

    pub(super) async fn progress(&self, rv: u64) {
        let watch = self.watch;
        self.send(Message::Progress { watch, rv }).await;
    }

    /// Sends that the facts up to a list's resourceVersion are complete as of `as_of`.
    ///
    /// A list whose resourceVersion has not advanced proves no more than the earlier one: a proxy that is cut off from the API
    /// server answers from its cache. In a cluster it advances by the second, with the leases of nodes and controllers.
    pub(super) async fn proven(&mut self, version: u64, as_of: Duration, by: Proof) {
        let watch = self.watch;
        let as_of = match self.newest {
            Some((newest, since)) if version <= newest => as_of.min(since),
            _ => as_of,
        };
        self.newest = self.newest.max(Some((version, as_of)));
        self.send(Message::Proven { watch, as_of, by }).await;
    }

    /// The greatest resourceVersion of a proof; 0 before the first.
    pub(super) fn proven_up_to(&self) -> u64 {
        self.newest.map_or(0, |(version, _)| version)
    }

    pub(super) async fn unconfirmed(&self, error: String) {
        let watch = self.watch;
        self.send(Message::Unconfirmed { watch, error }).await;
    }

    pub(super) async fn behind(&self) {
        self.send(Message::Behind(self.watch)).await;
    }

    pub(super) async fn rewound(&mut self, error: String) {
        self.newest = None;
        let watch = self.watch;
        self.send(Message::Rewound { watch, error }).await;
    }

    /// Sends that the watch is up; once, until the watch is down again.
    pub(super) async fn up(&mut self) {
        if !std::mem::replace(&mut self.up, true) {
            self.send(Message::Up(self.watch)).await;
        }
    }

    pub(super) async fn down(&mut self, refused: bool, error: String) {
        self.up = false;
        let watch = self.watch;
        self.send(Message::Down {
            watch,
            refused,
            error,
        })
        .await;
    }

    pub(super) async fn skipped(&self, what: impl fmt::Display, error: &(impl fmt::Display + Sync)) {
        let watch = self.watch;
        let what = format!("{what}: {error:#}").replace('\n', " ");
        let what = cut(&what, LINE).to_owned();
        self.send(Message::Skipped { watch, what }).await;
    }

    async fn send(&self, message: Message) {
        let _ = self.tx.send(message).await;
    }
}
