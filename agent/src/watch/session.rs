//! One watch: sends the requests that the protocol decides on, and passes on what is listed.

use super::beside::Open;
use super::collection::Collection;
use super::failure::{Failure, rewound};
use super::line::Entry;
use super::list::{Listed, UNPAGED, WHOLE, list};
use super::protocol::{End, Protocol, Step};
use super::recovery::{Recovery, Server};
use super::stream::LIFETIME;
use super::{Clock, Event, Message, Orders, Watches};
use anyhow::Result;
use epguard_core::facts::{Change, Fact, Ignored, Object, ObjectName, Visitor, Watched, cut};
use epguard_core::freshness::Proof;
use kube::Client;
use std::{mem::replace, sync::Arc, time::Duration};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

/// Longest line about an object that was skipped, in octets; names have at most 253 each.
const LINE: usize = 1024;
/// Mean time after which a collection is listed again of which one object is watched.
pub(super) const AGAIN: Duration = Duration::from_hours(1);

/// The task behind one watch.
pub(super) struct Session<O> {
    pub(super) client: Client,
    pub(super) clock: Clock,
    watched: Watched,
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
    recovery: Recovery,
    /// The current request.
    step: Step,
    /// The current stream.
    pub(super) open: Open<O>,
    up: bool,
    /// Since when the loop has taken messages more slowly than they come. What the stream has by
    /// now may be as old as that.
    pub(super) behind: Option<Instant>,
    /// The greatest resourceVersion of a proof, and the moment of the first with it.
    newest: Option<(u64, Duration)>,
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

/// Starts a session.
pub(super) struct Start<'a> {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) watched: Watched,
    /// The only object to watch; none: all.
    pub(super) one: Option<&'a ObjectName>,
    pub(super) narrowing: Option<Narrowing>,
    pub(super) messages: mpsc::Sender<Message>,
    /// Shared by all sessions of the server.
    pub(super) server: &'a Arc<Server>,
    /// Where the session runs and takes orders.
    pub(super) watches: &'a mut Watches,
}

impl Visitor for Start<'_> {
    type Output = ();

    fn visit<O: Object>(self, fact: fn(Change<O>) -> Fact) {
        let (orders, ordered) = watch::channel(Orders::default());
        self.watches.orders.insert(self.watched, orders.clone());
        let session = Session {
            client: self.client,
            clock: self.clock,
            watched: self.watched,
            collection: self
                .one
                .map_or_else(Collection::all::<O>, Collection::one::<O>),
            fact,
            messages: self.messages,
            orders,
            ordered,
            narrowing: self.narrowing,
            again: None,
            protocol: Protocol::default(),
            recovery: Recovery::new(self.server),
            step: Step::Stream,
            open: Open::new(Duration::ZERO, false),
            up: false,
            behind: None,
            newest: None,
            cut_short: false,
        };
        self.watches.tasks.spawn(session.run());
    }
}

impl<O: Object> Session<O> {
    /// Runs until the receiver of the messages is gone.
    pub(super) async fn run(mut self) {
        while !self.messages.is_closed() {
            self.step = self.protocol.begin();
            let begun = Instant::now();
            self.recovery.begin();
            let end = match self.attempt().await {
                Ok(end) => end,
                Err(error) => self.failed(&error).await,
            };
            self.cut_short =
                end != End::Closed || begun.elapsed() < Duration::from_secs(LIFETIME.start.into());
            let ceiling = self.protocol.end(end, begun.elapsed());
            match end {
                End::Expired => self.recovery.relist(ceiling).await,
                // The wait spreads the lists of all agents.
                End::Silent => sleep(ceiling.mul_f64(fastrand::f64())).await,
                _ => self.recovery.wait(ceiling).await,
            }
        }
    }

    async fn attempt(&mut self) -> Result<End> {
        if !matches!(self.step, Step::Watch(_)) {
            // This list satisfies all orders that came before it.
            self.again = None;
            self.orders.send_if_modified(|orders| {
                orders.lists.clear();
                false
            });
        }
        let limits = match self.step {
            Step::Watch(version) => return self.stream(Some(version)).await,
            Step::Stream => return self.stream(None).await,
            Step::Pages => &WHOLE,
            Step::List | Step::Once => &UNPAGED,
        };
        let listed = list(&self.client, &self.collection, limits, (self.clock)()).await?;
        self.reset(listed).await;
        self.narrows();
        Ok(End::Listed)
    }

    async fn failed(&mut self, error: &anyhow::Error) -> End {
        let Failure { end, error } = Failure::of(self.step, &self.collection.path, error);
        if end == End::Unsupported {
            tracing::debug!(watch = %self.watched, "{error}");
        } else {
            self.recovery.down();
            self.up = false;
            let refused = end == End::Refused;
            self.send(Event::Down { refused, error }).await;
        }
        end
    }

    /// Passes on a list of everything.
    pub(super) async fn reset(&mut self, listed: Listed<O>) {
        let Listed { version, sent, .. } = listed;
        let before = self.seen();
        self.protocol.listed(version, listed.entries.len());
        if version < before {
            self.send(Event::Rewound(rewound(before, version))).await;
        }
        let mut objects = Vec::with_capacity(listed.entries.len());
        for entry in listed.entries {
            objects.extend(self.object(entry).await);
        }
        let list = (self.fact)(Change::Reset(objects));
        self.send_dated(version, Some(sent), list).await;
        self.proven(version, sent, Proof::List).await;
    }

    /// Sends that the facts up to a list's resourceVersion are complete as of `as_of`.
    ///
    /// A list whose resourceVersion has not advanced proves no more than the earlier one: a proxy
    /// that is cut off from the API server answers from its cache. In a cluster it advances by the
    /// second, with the leases of nodes and controllers.
    pub(super) async fn proven(&mut self, version: u64, as_of: Duration, by: Proof) {
        let as_of = match self.newest {
            Some((newest, since)) if version <= newest => as_of.min(since),
            _ => as_of,
        };
        self.newest = self.newest.max(Some((version, as_of)));
        self.send(Event::Proven { as_of, by }).await;
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
        let Some((narrowing, count)) = self.narrowing.as_ref().zip(self.protocol.shown.objects)
        else {
            return false;
        };
        let narrows = count > narrowing.most;
        self.again = narrows.then(|| Instant::now() + AGAIN.mul_f64(0.5 + fastrand::f64()));
        if narrows {
            // Where the object does not exist, no list shows as many, and a probe confirms the
            // watch.
            self.protocol.shown.objects = Some(1);
        }
        narrows
    }

    /// Sends that changes arrive from now on; once, until the watch is down again.
    pub(super) async fn up(&mut self) {
        self.recovery.up();
        if !replace(&mut self.up, true) {
            self.send(Event::Up).await;
        }
    }

    pub(super) async fn send(&mut self, event: Event) {
        if matches!(event, Event::Rewound(_)) {
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
        self.send(Event::Fact {
            received,
            sent,
            rv,
            fact: Box::new(fact),
        })
        .await;
    }

    /// The object of an entry; none if it cannot be read. Sends what of it could not be.
    pub(super) async fn object(&mut self, entry: Entry<O>) -> Option<O> {
        let mut skipped = Ignored::new();
        let object = entry.read(&mut skipped);
        for what in skipped {
            self.skipped(&what).await;
        }
        object
    }

    pub(super) async fn skipped(&mut self, what: &str) {
        let line = what.replace('\n', " ");
        self.send(Event::Skipped(cut(&line, LINE).to_owned())).await;
    }
}
