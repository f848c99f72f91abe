//! The loop of a watch: sends the requests that the protocol decides on, one after the other.

use super::backoff::{Server, Waits};
use super::collection::Collection;
use super::failure::Failure;
use super::list::{UNPAGED, WHOLE, list};
use super::message::{Clock, Message, WatchEvent};
use super::open::Open;
use super::orders::{Orders, forget_ordered_lists};
use super::protocol::Protocol;
use super::request_error::RequestError;
use super::session::{Narrowing, Session};
use super::step::{End, Step};
use super::stream::LIFETIME;
use epguard_core::facts::{Change, Fact, Object, ObjectName, Visitor, Watched};
use futures::{FutureExt, future::BoxFuture};
use kube::Client;
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

/// What a watch needs to start.
pub(super) struct Start {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) watched: Watched,
    /// The only object to watch; none: all.
    pub(super) one: Option<ObjectName>,
    pub(super) narrowing: Option<Narrowing>,
    pub(super) messages: mpsc::Sender<Message>,
    /// Shared by all watches of the server.
    pub(super) server: Arc<Server>,
}

impl Visitor for Start {
    /// Where the watch takes orders, and its task.
    type Output = (watch::Sender<Orders>, BoxFuture<'static, ()>);

    fn visit<O: Object>(self, fact: fn(Change<O>) -> Fact) -> Self::Output {
        let (orders, ordered) = watch::channel(Orders::default());
        let collection = match &self.one {
            Some(name) => Collection::one::<O>(name),
            None => Collection::all::<O>(),
        };
        let session = Session {
            client: self.client,
            clock: self.clock,
            watched: self.watched,
            collection,
            fact,
            messages: self.messages,
            orders: orders.clone(),
            ordered,
            narrowing: self.narrowing,
            again: None,
            protocol: Protocol::default(),
            waits: Waits::new(&self.server),
            open: Open::new(Duration::ZERO, false),
            up: false,
            behind: None,
            newest: None,
            cut_short: false,
        };
        (orders, session.run().boxed())
    }
}

impl<O: Object> Session<O> {
    /// Runs until the receiver of the messages is gone.
    pub(super) async fn run(mut self) {
        while !self.messages.is_closed() {
            let step = self.protocol.begin();
            let begun = Instant::now();
            self.waits.begin();
            let end = match self.attempt(step).await {
                Ok(end) => end,
                Err(error) => self.report_failure(step, &error).await,
            };
            self.cut_short =
                end != End::Closed || begun.elapsed() < Duration::from_secs(LIFETIME.start.into());
            let ceiling = self.protocol.end(end, begun.elapsed());
            match end {
                End::Expired => self.waits.relist(ceiling).await,
                // The wait spreads the lists of all agents.
                End::Silent => sleep(ceiling.mul_f64(fastrand::f64())).await,
                End::Listed
                | End::Closed
                | End::Relist
                | End::Unsupported
                | End::Unanswered
                | End::Refused
                | End::Failed => self.waits.wait(ceiling).await,
            }
        }
    }

    /// Sends one request, and reads its answer to the end.
    async fn attempt(&mut self, step: Step) -> Result<End, RequestError> {
        if !matches!(step, Step::Watch(_)) {
            // This list satisfies all orders that came before it.
            self.again = None;
            forget_ordered_lists(&self.orders);
        }
        let limits = match step {
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

    /// Reports that a request failed, and returns how it ended.
    async fn report_failure(&mut self, step: Step, error: &RequestError) -> End {
        let Failure { end, error } = Failure::of(step, &self.collection.path, error);
        if end == End::Unsupported {
            tracing::debug!(watch = %self.watched, "{error}");
        } else {
            self.waits.down();
            self.up = false;
            let refused = end == End::Refused;
            self.send(WatchEvent::Down { refused, error }).await;
        }
        end
    }
}
