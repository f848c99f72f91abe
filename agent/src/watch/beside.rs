//! Requests beside an open stream: confirmations, probes and narrow lists.
//!
//! The stream is read meanwhile: its events may show the new owner of a denied IP. A narrow list is
//! sent once the stream has shown everything up to it. So the two agree, or one of them was wrong:
//! no object is missing in the list whose deletion the stream has yet to show.

use super::collection::Collection;
use super::confirm::{Answer, Confirmations, Probe, patience};
use super::failure::{Failure, rewound};
use super::line::Entry;
use super::list::{Limits, Listed, NARROW, OF_NODE, list};
use super::protocol::{End, Step};
use super::stream::probe;
use super::{Event, Lists, session::Session};
use anyhow::{Result, anyhow};
use epguard_core::facts::{Change, Object, ObjectName, Part, Selection};
use futures::{FutureExt, future::BoxFuture, stream::FuturesUnordered};
use std::{collections::HashMap, mem::take, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

/// Most objects that are listed to confirm a watch by their resourceVersions. Of more objects, none
/// is listed: `limit=1` would make the server count all of them.
const FEW: u32 = 10;
/// Longest time for a list beside the stream, however slowly it comes.
const LISTED_WITHIN: Duration = Duration::from_mins(1);
/// Narrow lists that are requested at the same time.
const AT_ONCE: usize = 2;

/// The state of an open stream, and of the requests beside it.
pub(super) struct Open<O> {
    /// When the stream was asked for, of `CLOCK_BOOTTIME`.
    pub(super) sent: Duration,
    /// What a streamed list has shown so far; none once it is complete, or for a stream that begins
    /// with changes.
    pub(super) initial: Option<HashMap<ObjectName, Entry<O>>>,
    pub(super) confirmations: Confirmations,
    /// Lists that were ordered and have not come.
    pub(super) ordered: Lists,
    /// Those of them that were requested.
    pub(super) beside: Vec<Beside<O>>,
    turns: Arc<Semaphore>,
    pub(super) requests: FuturesUnordered<BoxFuture<'static, Done<O>>>,
}

/// A narrow list beside a stream.
pub(super) struct Beside<O> {
    selection: Selection,
    /// Objects that the stream has shown since the list was asked for, with their last
    /// resourceVersions.
    pub(super) changed: HashMap<ObjectName, u64>,
    listed: Option<Listed<O>>,
}

/// A request beside a stream that has ended.
pub(super) enum Done<O> {
    /// The moment of an ordered list is there; none: of everything.
    Due(Option<Selection>),
    Listed(Asked, Result<Listed<O>>),
    Probed(Result<Probe>),
}

/// A list that was asked for beside a stream.
pub(super) struct Asked {
    /// None: to confirm the stream.
    selection: Option<Selection>,
    /// True for all objects, as far as they fit into one page.
    of_all: bool,
    patience: Duration,
    /// The greatest resourceVersion that the stream or a proof had shown then.
    seen: u64,
}

impl<O> Open<O> {
    /// For a stream that was asked for at a moment, and that `lists` all objects first or not.
    pub(super) fn new(sent: Duration, lists: bool) -> Self {
        Self {
            sent,
            initial: lists.then(HashMap::new),
            confirmations: Confirmations::default(),
            ordered: Lists::new(),
            beside: Vec::new(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            requests: FuturesUnordered::new(),
        }
    }

    fn beside(&mut self, selection: Option<&Selection>) -> Option<&mut Beside<O>> {
        self.beside
            .iter_mut()
            .find(|beside| Some(&beside.selection) == selection)
    }
}

impl<O: Object> Session<O> {
    /// Begins with what was ordered, but for lists that are under way. Each list is due at a moment
    /// of its own.
    pub(super) fn order(&mut self) {
        let mut new = super::Orders::default();
        self.orders.send_if_modified(|orders| {
            new = take(orders);
            false
        });
        if let Some(within) = new.confirm {
            self.confirm(within);
        }
        for (selection, within) in new.lists {
            if self
                .open
                .ordered
                .insert(selection.clone(), within)
                .is_some()
            {
                continue;
            }
            let due = async move {
                sleep(within.mul_f64(fastrand::f64())).await;
                Done::Due(selection)
            };
            self.open.requests.push(due.boxed());
        }
    }

    /// Lists all objects if they are few, else the key of no object. Of a single object that is
    /// watched, lists only that: the agent may have no right to another. The proof is needed
    /// `within` that time.
    pub(super) fn confirm(&self, within: Duration) {
        let shown = self.shown_part();
        let one = shown.fields.is_some().then_some(1);
        let objects = self
            .protocol
            .shown
            .objects
            .and_then(|objects| objects.try_into().ok());
        let few = objects.filter(|few| *few <= FEW).or(one);
        let limits = Limits {
            page: Some(few.map_or(1, |few| few + 1)),
            pages: 1,
            ..NARROW
        };
        let collection = few.map_or_else(Collection::nothing::<O>, |_| shown);
        let (patience, seen) = (patience(within), self.seen());
        self.ask(
            Asked {
                selection: None,
                of_all: few.is_some(),
                patience,
                seen,
            },
            collection,
            limits,
        );
    }

    fn list_part(&mut self, selection: Selection) {
        self.open.beside.push(Beside {
            selection: selection.clone(),
            changed: HashMap::new(),
            listed: None,
        });
        let limits = match selection {
            Selection::OnNode(_) => OF_NODE,
            _ => NARROW,
        };
        let collection = Collection::selected::<O>(&selection);
        let (patience, seen) = (patience(Duration::ZERO), self.seen());
        self.ask(
            Asked {
                selection: Some(selection),
                of_all: false,
                patience,
                seen,
            },
            collection,
            limits,
        );
    }

    fn ask(&self, asked: Asked, collection: Collection, limits: Limits) {
        let (client, clock, turns) = (
            self.client.clone(),
            self.clock,
            Arc::clone(&self.open.turns),
        );
        let list = async move {
            let is_narrow = asked.selection.is_some();
            let _turn = if is_narrow {
                turns.acquire().await.ok()
            } else {
                None
            };
            let listed = timeout(LISTED_WITHIN, list(&client, &collection, &limits, clock())).await;
            let listed = listed.unwrap_or_else(|elapsed| Err(elapsed.into()));
            Done::Listed(
                asked,
                if is_narrow {
                    listed.and_then(Listed::complete)
                } else {
                    listed
                },
            )
        };
        self.open.requests.push(list.boxed());
    }

    /// Requests a short watch from where the stream is.
    pub(super) fn probe(&self) {
        let probed = probe::<O>(
            self.client.clone(),
            self.shown_part(),
            self.protocol.shown.version,
        );
        self.open.requests.push(probed.map(Done::Probed).boxed());
    }

    /// Handles the end of a request. Returns how the stream ends, if it does.
    pub(super) async fn done(&mut self, done: Done<O>) -> Result<Option<End>> {
        let failed = match done {
            Done::Due(Some(selection)) => {
                self.list_part(selection);
                None
            }
            Done::Due(None) => return Ok(Some(End::Relist)),
            Done::Listed(Asked { seen, .. }, Ok(Listed { version, .. })) if version < seen => {
                let cause = rewound(seen, version);
                self.protocol.shown.version = 0;
                self.send(Event::Rewound(cause.clone())).await;
                return Err(anyhow!(cause).context(End::Expired));
            }
            Done::Listed(asked, Ok(listed)) => {
                self.listed(&asked, listed);
                None
            }
            // One that fails is dropped, and the stream goes on: the main loop asks again.
            Done::Listed(asked, Err(error)) => {
                if let Some(selection) = asked.selection {
                    self.open
                        .beside
                        .retain(|beside| beside.selection != selection);
                    self.open.ordered.remove(&Some(selection));
                }
                Some((Step::List, error))
            }
            Done::Probed(probed) => {
                let probed = self.open.confirmations.probed(probed, Instant::now());
                probed
                    .err()
                    .map(|error| (Step::Watch(self.protocol.shown.version), error))
            }
        };
        if let Some((step, error)) = failed {
            let failure = Failure::of(step, &self.collection.path, &error);
            self.send(Event::Unconfirmed(failure.error)).await;
        }
        Ok(None)
    }

    /// Takes in a list. A narrow one confirms the stream as any consistent list does.
    fn listed(&mut self, asked: &Asked, listed: Listed<O>) {
        let versions = || listed.entries.iter().map(|entry| entry.version);
        let shows_all = asked.of_all && listed.whole && versions().all(|version| version > 0);
        let now = Instant::now();
        let answer = Answer {
            sent: listed.sent,
            version: listed.version,
            newest: versions().max().unwrap_or(0),
            objects: shows_all.then_some(listed.entries.len()),
            probe_at: Some(now + asked.patience),
        };
        self.open.confirmations.answered(answer, now);
        if let Some(beside) = self.open.beside(asked.selection.as_ref()) {
            beside.listed = Some(listed);
        }
    }

    /// Sends the narrow lists that the stream has caught up with. When a list was sent proves
    /// nothing: one that is sent later may be answered from an earlier version.
    pub(super) async fn send_parts(&mut self) {
        let reached = self.open.confirmations.complete_up_to(self.protocol.shown);
        let is_shown = |beside: &mut Beside<O>| {
            let listed = beside.listed.as_ref();
            listed.is_some_and(|listed| listed.version <= reached)
        };
        let shown: Vec<_> = self.open.beside.extract_if(.., is_shown).collect();
        for mut beside in shown {
            let Some(listed) = beside.listed else {
                continue;
            };
            self.open.ordered.remove(&Some(beside.selection.clone()));
            // The list proves nothing of what the stream has shown in a later state.
            beside
                .changed
                .retain(|_, version| *version > listed.version);
            let mut objects = Vec::new();
            for entry in listed.entries {
                if !beside.changed.contains_key(&entry.name) {
                    objects.extend(self.object(entry).await);
                }
            }
            let part = Part {
                selection: beside.selection,
                sent: listed.sent,
                objects,
                later: beside.changed.into_keys().collect(),
            };
            self.send_fact(listed.version, (self.fact)(Change::Part(part)))
                .await;
        }
    }
}
