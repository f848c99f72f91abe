//! Handles answers to requests beside an open stream: confirmations, probes and narrow lists.

use super::beside::Beside;
use super::collection::Target;
use super::confirm::{Shown, patience};
use super::failure::{Failure, Request};
use super::list::{Glimpse, Listed, NARROW, OF_NODE, Probe, everything, glimpse};
use super::session::{Query, Session};
use super::stream::Open;
use epguard_core::facts::{Object, Selection};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl Session {
    /// Requests a consistent list of few objects. The proof is needed `within` that time.
    pub(super) fn glimpse<O: Object>(
        &self,
        query: &Query<O>,
        within: Duration,
    ) -> impl Future<Output = Result<Glimpse, Failure>> + use<O> {
        let (client, collection) = (self.client.clone(), self.watched(query));
        let Shown { version, objects } = self.shown();
        glimpse::<O>(
            client,
            collection,
            (version.max(self.outbox.proven_up_to()), objects),
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

    /// Requests a narrow list.
    pub(super) fn list_part<O: Object>(
        &self,
        query: &Query<O>,
        selection: Selection,
    ) -> impl Future<Output = (Selection, Result<Listed<O>, Failure>)> + use<O> {
        let (client, clock) = (self.client.clone(), self.clock);
        let target = (query.collection.clone(), Target::selected::<O>(&selection));
        let turns = Arc::clone(&self.turns);
        async move {
            let _turn = turns.acquire().await;
            let limits = match &selection {
                Selection::OnNode(_) => &OF_NODE,
                _ => &NARROW,
            };
            let listed = everything(client, target, limits, clock).await;
            (selection, listed)
        }
    }

    /// Handles the answer to a narrow list. One that fails is dropped, and the stream goes on: the main loop asks again.
    pub(super) async fn listed_part<O>(
        &mut self,
        request: Request,
        (selection, listed): (Selection, Result<Listed<O>, Failure>),
        open: &mut Open<O>,
    ) -> Result<(), Failure> {
        let listed = listed.and_then(|listed| match listed.unreadable.first() {
            Some((namespace, name)) => Err(request.broken(anyhow::anyhow!(
                "{namespace}/{name} cannot be read, so the list proves nothing"
            ))),
            None => Ok(listed),
        });
        match listed {
            Ok(listed) => {
                let mut beside = open.beside.iter_mut();
                let Some(beside) = beside.find(|beside| beside.selection == selection) else {
                    return Ok(());
                };
                let glimpse = beside.came(listed);
                self.answered(request, Ok(glimpse), open).await
            }
            Err(failure) => {
                open.beside.retain(|beside| beside.selection != selection);
                self.outbox.unconfirmed(failure.error).await;
                Ok(())
            }
        }
    }

    /// Sends the narrow lists that the stream has caught up with.
    pub(super) async fn send_parts<O: Object>(&mut self, open: &mut Open<O>) {
        let version = open.confirmations.complete_up_to(self.shown());
        let shown = open.beside.extract_if(.., |beside| beside.is_shown(version));
        for agreed in shown.filter_map(Beside::agreed) {
            for (what, error) in &agreed.skipped {
                self.outbox.skipped(what, error).await;
            }
            if let Some(fact) = O::part(agreed.part) {
                self.outbox.fact(agreed.version, fact).await;
            }
        }
    }
}
