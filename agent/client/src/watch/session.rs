//! The state of one watch, and what it sends to the main loop.
//!
//! [`attempts`](super::attempts) has its loop, [`stream`](super::stream) reads its stream, and
//! [`beside`](super::beside) has the requests beside that.

use super::backoff::Waits;
use super::collection::Collection;
use super::line::ReceivedObject;
use super::list::Listed;
use super::message::{Clock, Message, WatchEvent};
use super::open::Open;
use super::orders::Orders;
use super::protocol::Protocol;
use super::request_error::WentBack;
use epguard_core::facts::{Change, Fact, Ignored, Object, Watched, cut};
use epguard_core::freshness::Proof;
use kube::Client;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Longest line about an object that was skipped, in octets; names have at most 253 each.
const LINE: usize = 1024;
/// Mean time after which a collection is listed again of which one object is watched.
pub(super) const AGAIN: Duration = Duration::from_hours(1);

/// The task behind one watch.
pub(super) struct Session<O> {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) watched: Watched,
    pub(super) collection: Collection,
    pub(super) fact: fn(Change<O>) -> Fact,
    /// Its receiver ends the session when it is dropped.
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) orders: watch::Sender<Orders>,
    /// Shows that something was ordered.
    pub(super) ordered: watch::Receiver<Orders>,
    pub(super) narrowing: Option<Narrowing>,
    /// When everything is to be listed again, while one object alone is watched.
    pub(super) again: Option<Instant>,
    pub(super) protocol: Protocol,
    pub(super) waits: Waits,
    /// The current stream.
    pub(super) open: Open<O>,
    pub(super) up: bool,
    /// Since when the loop has taken messages more slowly than they come. What the stream has by
    /// now may be as old as that.
    pub(super) behind: Option<Instant>,
    /// The greatest resourceVersion of a proof, and the moment of the first with it.
    pub(super) newest: Option<(u64, Duration)>,
    /// True if the last request was a list, or a stream that ended before its time: then the server
    /// may be another one, or an older one.
    pub(super) cut_short: bool,
}

/// The one object that is watched in a large collection, while the others are listed from time to
/// time. Nodes are such: each writes its status every few minutes, and in a large cluster each of
/// these changes would go to each agent.
#[derive(Debug, Clone)]
pub(super) struct Narrowing {
    pub(super) name: String,
    /// All are watched if they are no more than this.
    pub(super) most: usize,
}

impl<O: Object> Session<O> {
    /// Passes on a list of everything.
    pub(super) async fn reset(&mut self, listed: Listed<O>) {
        let Listed { version, sent, .. } = listed;
        let before = self.seen();
        self.protocol.list_received(version, listed.entries.len());
        if version < before {
            let went_back = WentBack {
                before,
                now: version,
            };
            self.send(WatchEvent::Rewound(went_back.to_string())).await;
        }
        let mut objects = Vec::with_capacity(listed.entries.len());
        for entry in listed.entries {
            objects.extend(self.read_object(entry).await);
        }
        let list = (self.fact)(Change::Reset(objects));
        self.send_dated(version, Some(sent), list).await;
        self.send_proven(version, sent, Proof::List).await;
    }

    /// Sends that the facts up to a list's resourceVersion are complete as of `as_of`.
    ///
    /// A list whose resourceVersion has not advanced proves no more than the earlier one: a proxy
    /// that is cut off from the API server answers from its cache. In a cluster it advances by the
    /// second, with the leases of nodes and controllers.
    pub(super) async fn send_proven(&mut self, version: u64, as_of: Duration, by: Proof) {
        let as_of = match self.newest {
            Some((newest, since)) if version <= newest => as_of.min(since),
            _ => as_of,
        };
        self.newest = self.newest.max(Some((version, as_of)));
        self.send(WatchEvent::Proven { as_of, by }).await;
    }

    /// The greatest resourceVersion that the stream or a proof has shown. A list that is older
    /// shows that the API went back.
    pub(super) fn seen(&self) -> u64 {
        let proven = self.newest.map_or(0, |(version, _)| version);
        self.protocol.shown.version.max(proven)
    }

    /// Decides by the number of all objects whether one alone is watched from now on. All agents
    /// draw the moment of their next list apart from each other.
    pub(super) fn narrows(&mut self) -> bool {
        let Some(narrowing) = &self.narrowing else {
            return false;
        };
        let Some(count) = self.protocol.shown.objects else {
            return false;
        };
        if count <= narrowing.most {
            self.again = None;
            return false;
        }
        self.again = Some(Instant::now() + AGAIN.mul_f64(0.5 + fastrand::f64()));
        // Where the object does not exist, no list shows as many, and a probe proves the watch.
        self.protocol.shown.objects = Some(1);
        true
    }

    /// The objects that the stream shows.
    pub(super) fn shown_part(&self) -> Collection {
        let all = self.collection.clone();
        match &self.narrowing {
            Some(narrowing) if self.again.is_some() => all.with_name(&narrowing.name),
            _ => all,
        }
    }

    /// True if the stream shows changes, not the objects of a list.
    pub(super) fn is_following(&self) -> bool {
        self.open.initial.is_none()
    }

    /// Sends that changes arrive from now on; once, until the watch is down again.
    pub(super) async fn send_up(&mut self) {
        self.waits.up();
        if !self.up {
            self.up = true;
            self.send(WatchEvent::Up).await;
        }
    }

    pub(super) async fn send(&mut self, event: WatchEvent) {
        if matches!(event, WatchEvent::Rewound(_)) {
            self.newest = None;
        }
        let message = Message {
            watch: self.watched,
            event,
        };
        if let Err(TrySendError::Full(message)) = self.messages.try_send(message) {
            self.behind.get_or_insert_with(Instant::now);
            // Without a receiver, the session ends by itself.
            let _ = self.messages.send(message).await;
        }
    }

    pub(super) async fn send_fact(&mut self, rv: u64, fact: Fact) {
        self.send_dated(rv, None, fact).await;
    }

    async fn send_dated(&mut self, rv: u64, sent: Option<Duration>, fact: Fact) {
        let received = self.behind.unwrap_or_else(Instant::now);
        self.send(WatchEvent::Fact {
            received,
            sent,
            rv,
            fact: Box::new(fact),
        })
        .await;
    }

    /// The object of an entry; none if it cannot be read. Sends what of it could not be.
    pub(super) async fn read_object(&mut self, entry: ReceivedObject<O>) -> Option<O> {
        let mut skipped = Ignored::new();
        let object = entry.read(&mut skipped);
        for what in skipped {
            self.send_skipped(&what).await;
        }
        object
    }

    pub(super) async fn send_skipped(&mut self, what: &str) {
        let line = what.replace('\n', " ");
        self.send(WatchEvent::Skipped(cut(&line, LINE).to_owned()))
            .await;
    }
}
