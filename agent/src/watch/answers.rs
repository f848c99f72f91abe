//! Handles answers to requests beside an open stream: confirmations, probes and lists.

use super::confirm::{Shown, patience};
use super::failure::{Failure, Request};
use super::list::{Glimpse, Listed, Probe, everything, glimpse};
use super::session::{Query, SILENCE, Session};
use super::stream::Open;
use epguard_core::facts::Object;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Average time between two attempts at a list beside a stream.
const LIST_AGAIN: Duration = Duration::from_secs(2);

impl Session {
    /// Requests a consistent list of few objects. The proof is needed `within` that time.
    pub(super) fn glimpse<O: Object>(
        &self,
        query: &Query<O>,
        within: Duration,
    ) -> impl Future<Output = Result<Glimpse, Failure>> + use<O> {
        let (client, collection) = (self.client.clone(), query.collection.clone());
        let Shown { version, objects } = self.shown();
        glimpse::<O>(
            client,
            collection,
            (version, objects),
            patience(within),
            self.clock,
        )
    }

    pub(super) async fn answered<O>(
        &mut self,
        request: Request,
        answer: Result<Glimpse, Failure>,
        open: &mut Open<O>,
    ) -> Result<(), Failure> {
        match answer {
            Ok(Glimpse { seen, version, .. }) if version < seen => {
                let failure = request.rewound(seen, version);
                self.protocol.rewound();
                self.outbox.rewound(failure.error.clone()).await;
                return Err(failure);
            }
            Ok(glimpse) => open.confirmations.answered(glimpse, Instant::now()),
            Err(failure) => self.outbox.unconfirmed(failure.error).await,
        }
        Ok(())
    }

    pub(super) async fn probed<O>(
        &mut self,
        request: Request,
        probe: Result<Probe, Failure>,
        open: &mut Open<O>,
    ) {
        let (probe, mut error) = match probe {
            Ok(probe) => (Some(probe), None),
            Err(failure) => (None, Some(failure.error)),
        };
        let missed = open.confirmations.probed(probe, Instant::now());
        error = error.or(missed.map(|version| request.unprogressed(version).error));
        if let Some(error) = error {
            self.outbox.unconfirmed(error).await;
        }
    }

    /// Handles the answer to a list beside the stream. Returns the time after which to ask for another one.
    pub(super) async fn listed_beside<O>(
        &mut self,
        request: Request,
        listed: Result<Listed<O>, Failure>,
        open: &mut Open<O>,
    ) -> Result<Option<Duration>, Failure> {
        match (listed, open.beside.as_mut()) {
            (Ok(listed), Some(beside)) => {
                let glimpse = beside.came(listed);
                self.answered(request, Ok(glimpse), open).await?;
                Ok(None)
            }
            (Err(failure), Some(_)) => {
                self.outbox.unconfirmed(failure.error).await;
                Ok(Some(LIST_AGAIN.mul_f64(0.5 + fastrand::f64())))
            }
            (_, None) => Ok(None),
        }
    }

    /// Requests a list of everything, after `wait`.
    pub(super) fn list_after<O: Object>(
        &self,
        wait: Duration,
        query: &Query<O>,
    ) -> impl Future<Output = Result<Listed<O>, Failure>> + use<O> {
        let (client, collection, clock) = (self.client.clone(), query.collection.clone(), self.clock);
        async move {
            sleep(wait).await;
            everything(client, collection, SILENCE, clock).await
        }
    }
}
