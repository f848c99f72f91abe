//! Requests beside an open stream: freshness checks, probes and narrow lists.
//!
//! The stream is read meanwhile: its events may show the new owner of a denied IP. A narrow list is
//! sent once the stream has shown everything up to it. So the two agree, or one of them was wrong:
//! no object is missing in the list whose deletion the stream has yet to show.

use super::changes::probe;
use super::collection::Collection;
use super::failure::Failure;
use super::freshness_check::{CheckAnswer, patience};
use super::list::{Limits, Listed, NARROW, OF_NODE, list};
use super::message::{Clock, WatchEvent};
use super::open::{Finished, ListRequest, NarrowList};
use super::orders::take_orders;
use super::request_error::{RequestError, WentBack};
use super::session::Session;
use super::step::{End, Step};
use epguard_core::facts::{Change, Object, Part, Selection};
use futures::FutureExt;
use kube::Client;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// Most objects that a freshness check lists, for their resourceVersions. Of more objects, none is
/// listed: `limit=1` would make the server count all of them.
const FEW: u32 = 10;
/// Longest time for a list beside the stream, however slowly it comes.
const LISTED_WITHIN: Duration = Duration::from_mins(1);

impl<O: Object> Session<O> {
    /// Begins with what was ordered, but for lists that are under way. Each list is due at a moment
    /// of its own.
    pub(super) fn begin_orders(&mut self) {
        let new = take_orders(&self.orders);
        if let Some(within) = new.check_within {
            self.check_freshness(within);
        }
        for (selection, within) in new.lists {
            let earlier = self.open.ordered.insert(selection.clone(), within);
            if earlier.is_some() {
                continue;
            }
            let wait = async move {
                sleep(within.mul_f64(fastrand::f64())).await;
                Finished::Wait(selection)
            };
            self.open.requests.push(wait.boxed());
        }
    }

    /// Requests a freshness check, which is to prove the watch `within` that time: lists all
    /// objects if they are few, else the key of no object. Of a single object that is watched,
    /// lists only that: the agent may have no right to another.
    pub(super) fn check_freshness(&self, within: Duration) {
        let shown = self.shown_part();
        let few = self.few_objects(&shown);
        let limits = Limits {
            page: Some(few.map_or(1, |few| few + 1)),
            pages: 1,
            ..NARROW
        };
        let collection = match few {
            Some(_) => shown,
            None => Collection::nothing::<O>(),
        };
        let request = ListRequest {
            selection: None,
            of_all: few.is_some(),
            patience: patience(within),
            seen: self.seen(),
        };
        self.request_list(request, collection, limits);
    }

    /// How many objects the stream shows; none if they are many, or nothing shows their number.
    fn few_objects(&self, shown: &Collection) -> Option<u32> {
        let objects = self.protocol.shown.objects;
        if let Some(count) = objects.and_then(|count| u32::try_from(count).ok())
            && count <= FEW
        {
            return Some(count);
        }
        // The one object of this name.
        shown.fields.is_some().then_some(1)
    }

    /// Requests a narrow list.
    fn list_part(&mut self, selection: Selection) {
        self.open.narrow.push(NarrowList {
            selection: selection.clone(),
            changed: HashMap::new(),
            listed: None,
        });
        let limits = match selection {
            Selection::OnNode(_) => OF_NODE,
            Selection::Labelled { .. } | Selection::SlicesOf { .. } => NARROW,
        };
        let collection = Collection::selected::<O>(&selection);
        let request = ListRequest {
            selection: Some(selection),
            of_all: false,
            patience: patience(Duration::ZERO),
            seen: self.seen(),
        };
        self.request_list(request, collection, limits);
    }

    fn request_list(&self, request: ListRequest, collection: Collection, limits: Limits) {
        let client = self.client.clone();
        let clock = self.clock;
        let turns = Arc::clone(&self.open.turns);
        let finished = async move {
            if request.selection.is_none() {
                let listed = list_in_time(&client, &collection, &limits, clock).await;
                return Finished::List(request, listed);
            }
            let _turn = turns.acquire().await.ok();
            let listed = list_in_time(&client, &collection, &limits, clock).await;
            Finished::List(request, listed.and_then(Listed::require_complete))
        };
        self.open.requests.push(finished.boxed());
    }

    /// Requests a short watch from where the stream is.
    pub(super) fn send_probe(&self) {
        let probed = probe::<O>(
            self.client.clone(),
            self.shown_part(),
            self.protocol.shown.version,
        );
        self.open.requests.push(probed.map(Finished::Probe).boxed());
    }

    /// Handles the end of a request. Returns how the stream ends, if it does.
    pub(super) async fn finish_request(
        &mut self,
        finished: Finished<O>,
    ) -> Result<Option<End>, RequestError> {
        match finished {
            Finished::Wait(None) => return Ok(Some(End::Relist)),
            Finished::Wait(Some(selection)) => self.list_part(selection),
            Finished::List(request, Ok(listed)) => {
                if listed.version < request.seen {
                    let went_back = WentBack {
                        before: request.seen,
                        now: listed.version,
                    };
                    self.protocol.shown.version = 0;
                    self.send(WatchEvent::Rewound(went_back.to_string())).await;
                    return Err(RequestError::WentBack(went_back));
                }
                self.receive_list(request, listed);
            }
            // One that fails is dropped, and the stream goes on: the main loop asks again.
            Finished::List(request, Err(error)) => {
                if let Some(selection) = request.selection {
                    self.open.drop_narrow_list(selection);
                }
                self.send_check_failed(Step::List, &error).await;
            }
            Finished::Probe(probe) => {
                if let Err(error) = self.open.checks.probe_ended(probe, Instant::now()) {
                    let step = Step::Watch(self.protocol.shown.version);
                    self.send_check_failed(step, &error).await;
                }
            }
        }
        Ok(None)
    }

    async fn send_check_failed(&mut self, step: Step, error: &RequestError) {
        let failure = Failure::of(step, &self.collection.path, error);
        self.send(WatchEvent::CheckFailed(failure.error)).await;
    }

    /// Takes in a list. A narrow one checks the stream's freshness as any consistent list does.
    fn receive_list(&mut self, request: ListRequest, listed: Listed<O>) {
        let versions = || listed.entries.iter().map(|entry| entry.version);
        let shows_all = request.of_all && listed.whole && versions().all(|version| version > 0);
        let now = Instant::now();
        let answer = CheckAnswer {
            sent: listed.sent,
            version: listed.version,
            newest: versions().max().unwrap_or(0),
            objects: shows_all.then_some(listed.entries.len()),
            probe_at: Some(now + request.patience),
        };
        self.open.checks.list_answered(answer, now);
        if let Some(selection) = request.selection
            && let Some(narrow) = self.open.narrow_list(&selection)
        {
            narrow.listed = Some(listed);
        }
    }

    /// Sends the narrow lists that the stream has caught up with. When a list was sent proves
    /// nothing: one that is sent later may be answered from an earlier version.
    pub(super) async fn send_parts(&mut self) {
        let reached = self.open.checks.complete_up_to(self.protocol.shown);
        let is_shown = |narrow: &mut NarrowList<O>| match &narrow.listed {
            Some(listed) => listed.version <= reached,
            None => false,
        };
        let shown: Vec<_> = self.open.narrow.extract_if(.., is_shown).collect();
        for mut narrow in shown {
            let Some(listed) = narrow.listed else {
                continue;
            };
            self.open.ordered.remove(&Some(narrow.selection.clone()));
            // The list proves nothing of what the stream has shown in a later state.
            narrow
                .changed
                .retain(|_, version| *version > listed.version);
            let mut objects = Vec::new();
            for entry in listed.entries {
                if !narrow.changed.contains_key(&entry.name) {
                    objects.extend(self.read_object(entry).await);
                }
            }
            let part = Part {
                selection: narrow.selection,
                sent: listed.sent,
                objects,
                later: narrow.changed.into_keys().collect(),
            };
            self.send_fact(listed.version, (self.fact)(Change::Part(part)))
                .await;
        }
    }
}

/// Lists a collection within [`LISTED_WITHIN`].
async fn list_in_time<O: Object>(
    client: &Client,
    collection: &Collection,
    limits: &Limits,
    clock: Clock,
) -> Result<Listed<O>, RequestError> {
    timeout(LISTED_WITHIN, list(client, collection, limits, clock())).await?
}
