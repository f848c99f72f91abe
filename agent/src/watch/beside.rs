//! Requests beside an open stream: confirmations, probes and narrow lists.
//!
//! The stream is read meanwhile: its events may show the new owner of a denied IP. A narrow list is sent once the stream has
//! shown everything up to it. So the two agree, or one of them was wrong: no object is missing in the list whose deletion the
//! stream has yet to show.

use super::collection::Collection;
use super::confirm::{Answer, Probe, patience};
use super::failure::{Failure, Request};
use super::line::Line;
use super::list::{Limits, Listed, NARROW, OF_NODE, list};
use super::open::{Asked, Beside, Done};
use super::orders::Orders;
use super::protocol::{End, Step};
use super::{Event, session::Session};
use epguard_core::facts::{Object, Part, Selection};
use futures::{AsyncBufReadExt, FutureExt, StreamExt};
use kube::api::WatchParams;
use kube::{Client, core};
use std::{collections::HashMap, mem::take, pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// Most objects that are listed to confirm a watch by their resourceVersions. Of more objects, none is listed: `limit=1` would
/// make the server count all of them.
const FEW: u32 = 10;
/// Longest life of a probe in seconds; the bookmark comes after one, and the server's timers may add another.
const PROBE: u32 = 3;
/// Longest time for a list beside the stream, however slowly it comes.
const LISTED_WITHIN: Duration = Duration::from_mins(1);
/// Longest wait for a probe.
const PROBED_WITHIN: Duration = Duration::from_secs(20);

impl<O: Object> Session<O> {
    /// Begins with what was ordered, but for lists that are under way. Each list is due at a moment of its own.
    pub(super) fn order(&mut self) {
        let mut new = Orders::default();
        self.orders.send_if_modified(|orders| {
            new = take(orders);
            false
        });
        if let Some(within) = new.confirm {
            self.confirm(within);
        }
        for (selection, within) in new.lists {
            if self.open.ordered.contains_key(&selection) || self.beside(selection.as_ref()).is_some() {
                continue;
            }
            self.open.ordered.insert(selection.clone(), within);
            let due = async move {
                sleep(within.mul_f64(fastrand::f64())).await;
                Done::Due(selection)
            };
            self.open.requests.push(due.boxed());
        }
    }

    fn beside(&mut self, selection: Option<&Selection>) -> Option<&mut Beside<O>> {
        let mut beside = self.open.beside.iter_mut();
        beside.find(|beside| Some(&beside.selection) == selection)
    }

    /// Lists all objects if they are few, else the key of no object. Of a single object that is watched, lists only that: the
    /// agent may have no right to another. The proof is needed `within` that time.
    pub(super) fn confirm(&self, within: Duration) {
        let shown = self.shown_part();
        let one = shown.fields.is_some().then_some(1);
        let objects = self.protocol.objects.and_then(|objects| objects.try_into().ok());
        let few = objects.filter(|few| *few <= FEW).or(one);
        let asked =
            Asked { selection: None, of_all: few.is_some(), patience: patience(within), seen: self.seen() };
        let limits = Limits { page: Some(few.map_or(1, |few| few + 1)), pages: 1, ..NARROW };
        let collection = few.map_or_else(Collection::nothing::<O>, |_| shown);
        self.ask(asked, collection, limits);
    }

    fn list_part(&mut self, selection: Selection) {
        self.open.beside.push(Beside { selection: selection.clone(), changed: HashMap::new(), listed: None });
        let limits = match selection {
            Selection::OnNode(_) => OF_NODE,
            _ => NARROW,
        };
        let collection = Collection::selected::<O>(&selection);
        let asked = Asked {
            selection: Some(selection),
            of_all: false,
            patience: patience(Duration::ZERO),
            seen: self.seen(),
        };
        self.ask(asked, collection, limits);
    }

    fn ask(&self, asked: Asked, collection: Collection, limits: Limits) {
        let (client, clock, path) = (self.client.clone(), self.clock, self.collection.path.clone());
        let turns = Arc::clone(&self.open.turns);
        let list = async move {
            let is_narrow = asked.selection.is_some();
            let _turn = if is_narrow { turns.acquire().await.ok() } else { None };
            let (step, path) = (Step::List, path.as_str());
            let request = Request { step, path };
            let listed = timeout(LISTED_WITHIN, list(&client, request, &collection, &limits, clock())).await;
            let mut listed = listed.unwrap_or_else(|elapsed| Err(request.broken(elapsed)));
            if is_narrow {
                listed = listed.and_then(|all| all.complete().map_err(|error| request.broken(error)));
            }
            Done::Listed(asked, listed)
        };
        self.open.requests.push(list.boxed());
    }

    /// Requests a short watch from where the stream is.
    pub(super) fn probe(&self) {
        let probed = probe::<O>(self.client.clone(), self.shown_part(), self.protocol.highest);
        self.open.requests.push(probed.map(Done::Probed).boxed());
    }

    /// Handles the end of a request. Returns how the stream ends, if it does.
    pub(super) async fn done(&mut self, done: Done<O>) -> Result<Option<End>, Failure> {
        let mut error = None;
        match done {
            Done::Due(selection) => {
                self.open.ordered.remove(&selection);
                match selection {
                    Some(selection) => self.list_part(selection),
                    None => return Ok(Some(End::Relist)),
                }
            }
            Done::Listed(Asked { seen, .. }, Ok(Listed { version, .. })) if version < seen => {
                let failure = self.request().rewound(seen, version);
                self.protocol.highest = 0;
                self.send(Event::Rewound(failure.error.clone())).await;
                return Err(failure);
            }
            Done::Listed(asked, Ok(listed)) => self.listed(&asked, listed),
            // One that fails is dropped, and the stream goes on: the main loop asks again.
            Done::Listed(asked, Err(failure)) => {
                let of = |beside: &Beside<O>| Some(&beside.selection) == asked.selection.as_ref();
                self.open.beside.retain(|beside| !of(beside));
                error = Some(failure.error);
            }
            Done::Probed(probed) => {
                let probe = probed.map_err(|failure| error = Some(failure.error)).ok();
                if let Some(version) = self.open.confirmations.probed(probe, Instant::now()) {
                    let cause = format!(
                        "no bookmark reaches resourceVersion {version} of a list, so nothing proves the watch complete; a \
                         quiet collection needs Kubernetes 1.31 or later, or etcd with --watch-progress-notify-interval=5s"
                    );
                    error = Some(self.request().failure(End::Failed, &cause).error);
                }
            }
        }
        if let Some(error) = error {
            self.send(Event::Unconfirmed(error)).await;
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
        if let Some(beside) = self.beside(asked.selection.as_ref()) {
            beside.listed = Some(listed);
        }
    }

    /// Sends the narrow lists that the stream has caught up with. When a list was sent proves nothing: one that is sent later
    /// may be answered from an earlier version.
    pub(super) async fn send_parts(&mut self) {
        let reached = self.open.confirmations.complete_up_to(self.shown());
        let is_shown = |beside: &mut Beside<O>| {
            let listed = beside.listed.as_ref();
            listed.is_some_and(|listed| listed.version <= reached)
        };
        let shown: Vec<_> = self.open.beside.extract_if(.., is_shown).collect();
        for mut beside in shown {
            let Some(listed) = beside.listed else { continue };
            // The list proves nothing of what the stream has shown in a later state.
            beside.changed.retain(|_, version| *version > listed.version);
            let mut objects = Vec::new();
            for entry in listed.entries {
                if !beside.changed.contains_key(&entry.name) {
                    objects.extend(self.object(entry).await);
                }
            }
            let part = O::part(Part {
                selection: beside.selection,
                sent: listed.sent,
                objects,
                later: beside.changed.into_keys().collect(),
            });
            if let Some(fact) = part {
                self.send_fact(listed.version, fact).await;
            }
        }
    }
}

/// Watches the changes after a resourceVersion, up to the bookmark that a server sends 2 s before a watch times out
/// (`cache_watcher.go:nextBookmarkTime`).
async fn probe<O: Object>(client: Client, shown: Collection, after: u64) -> Result<Probe, Failure> {
    let (step, path) = (Step::Watch(after), shown.path.as_str());
    let request = Request { step, path };
    let params =
        WatchParams { field_selector: shown.fields.clone(), ..WatchParams::default().timeout(PROBE) };
    let http = core::Request::new(path).watch(&params, &after.to_string());
    let http = http.map_err(|error| request.broken(error))?;
    let read = async {
        let stream = client.request_stream(http).await;
        let mut lines = pin!(stream.map_err(|error| request.failed(error))?.lines());
        let mut last = after;
        while let Some(line) = lines.next().await {
            let line = line.map_err(|error| request.broken(error))?;
            match Line::<O>::parse(line.as_bytes()).map_err(|error| request.broken(error))? {
                Line::Object(_, entry) => last = last.max(entry.version),
                Line::Bookmark { version, .. } => return Ok(Probe { last, through: version }),
                Line::Error(status) => return Err(request.refused(&status)),
            }
        }
        Ok(Probe { last, through: last })
    };
    timeout(PROBED_WITHIN, read).await.map_err(|elapsed| request.broken(elapsed))?
}
