//! One watch: sends the requests that the protocol decides on, and passes on what is listed.
//! [`stream`](super::stream) reads the changes.

use super::Clock;
use super::collection::{Collection, Target};
use super::failure::{Failure, Request, rewound};
use super::list::{self, Limits, Listed, UNPAGED, WHOLE};
use super::narrowing::Narrowing;
use super::orders::Orders;
use super::outbox::Outbox;
use super::protocol::{End, Protocol, Step};
use super::recovery::Recovery;
use crate::shared::clock::boot;
use epguard_core::facts::{Change, Fact, Object};
use epguard_core::freshness::Proof;
use kube::Client;
use std::{collections::HashMap, ops::Range, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

/// Narrow lists of one watch that are requested at the same time.
const AT_ONCE: usize = 2;

/// Seconds after which the server ends a stream; watches draw theirs at random, apart from each other.
pub(super) const LIFETIME: Range<u32> = 270..330;

/// The task behind one watch.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) outbox: Outbox,
    pub(super) orders: Arc<Orders>,
    pub(super) protocol: Protocol,
    recovery: Recovery,
    /// True if the last request was a list, or a stream that ended before its time: then the server may be another
    /// one, or an older one.
    pub(super) cut_short: bool,
    pub(super) clock: Clock,
    /// Turns of narrow lists: an answer of many objects takes memory.
    pub(super) turns: Arc<Semaphore>,
    /// Of a large collection, only one object is watched.
    pub(super) narrowing: Option<Narrowing>,
}

/// The collection that a session reads, and the kind of fact that it sends.
pub(super) struct Query<O> {
    pub(super) collection: Collection,
    pub(super) fact: fn(Change<O>) -> Fact,
}

impl Session {
    pub(super) fn new(client: Client, outbox: Outbox, orders: Arc<Orders>, recovery: Recovery) -> Self {
        Self {
            client,
            outbox,
            orders,
            protocol: Protocol::default(),
            recovery,
            cut_short: false,
            clock: boot,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            narrowing: None,
        }
    }

    /// The session with another clock.
    pub(super) fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The session with one object that it watches alone in a large collection.
    pub(super) fn narrowed_by(self, narrowing: Narrowing) -> Self {
        let narrowing = Some(narrowing);
        Self { narrowing, ..self }
    }

    /// What the stream of changes shows.
    pub(super) fn watched<O>(&self, query: &Query<O>) -> Collection {
        let narrowing = self.narrowing.as_ref();
        let narrow = narrowing.and_then(|narrowing| narrowing.narrow(&query.collection));
        narrow.unwrap_or_else(|| query.collection.clone())
    }

    /// Runs until the receiver is gone.
    pub(super) async fn run<O: Object>(mut self, collection: Collection, fact: fn(Change<O>) -> Fact) {
        let query = Query { collection, fact };
        while !self.outbox.is_closed() {
            let step = self.protocol.begin();
            let begun = Instant::now();
            self.recovery.begin();
            let end = match self.attempt(step, &query).await {
                Ok(end) => end,
                Err(failure) => self.failed(failure).await,
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

    async fn attempt<O: Object>(&mut self, step: Step, query: &Query<O>) -> Result<End, Failure> {
        let request = Request {
            step,
            path: query.collection.path,
        };
        if !matches!(step, Step::Watch(_)) {
            // This list satisfies all orders that came before it.
            self.orders.take_lists();
        }
        match step {
            Step::Pages => self.list(query, &WHOLE).await,
            Step::List => self.list(query, &UNPAGED).await,
            Step::Stream => {
                let initial = Some(HashMap::new());
                self.stream(request, query, "", initial).await
            }
            Step::Watch(version) => self.stream(request, query, &version.to_string(), None).await,
        }
    }

    async fn failed(&mut self, Failure { end, error }: Failure) -> End {
        if end == End::Unsupported {
            tracing::debug!(watch = %self.outbox.watch(), "{error}");
        } else {
            self.recovery.down();
            self.outbox.down(end == End::Refused, error).await;
        }
        end
    }

    /// Records that changes arrive from now on.
    pub(super) async fn up(&mut self) {
        self.recovery.up();
        self.outbox.up().await;
    }

    /// Lists everything and passes it on.
    async fn list<O: Object>(&mut self, query: &Query<O>, limits: &Limits) -> Result<End, Failure> {
        let (client, collection) = (self.client.clone(), query.collection.clone());
        let target = Target::of(&collection);
        let listed = list::everything(client, (collection, target), limits, self.clock).await?;
        self.reset(listed, query).await;
        Ok(End::Listed)
    }

    pub(super) async fn reset<O: Object>(&mut self, listed: Listed<O>, query: &Query<O>) {
        for (what, error) in &listed.skipped {
            self.outbox.skipped(what, error).await;
        }
        let proven = Some(self.outbox.proven_up_to()).filter(|proven| listed.version < *proven);
        if let Some(before) = self.protocol.listed(listed.version, listed.count).or(proven) {
            self.outbox.rewound(rewound(before, listed.version)).await;
        }
        let objects = listed.objects.into_iter().map(|(_, object)| object);
        let fact = (query.fact)(Change::Reset(objects.collect()));
        self.outbox.fact(listed.version, fact).await;
        self.outbox.proven(listed.version, listed.sent, Proof::List).await;
        self.narrow();
    }

    /// Watches one object alone from now on, if there are too many.
    pub(super) fn narrow(&mut self) {
        if let Some((narrowing, count)) = self.narrowing.as_mut().zip(self.protocol.objects())
            && narrowing.counted(count)
        {
            // Where the object does not exist, no list shows as many, and a probe confirms the watch.
            self.protocol.set_objects(1);
        }
    }
}
