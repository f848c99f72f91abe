//! One watch stream: initial events, changes, bookmarks, 410.

use super::faults::Faults;
use super::store::{Change, Selector, Store};
use super::{ApiError, Kind};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What a client asked for.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) kind: Kind,
    pub(super) selector: Selector,
    /// 0: any state, so the current one.
    pub(super) version: Option<u64>,
    /// `sendInitialEvents`.
    pub(super) initial: bool,
    pub(super) bookmarks: bool,
    pub(super) timeout: Duration,
    /// Between bookmarks.
    pub(super) period: Duration,
}

/// A stream of newline-terminated JSON events.
pub(super) struct Stream {
    store: Store,
    options: Options,
    faults: watch::Receiver<Faults>,
    changed: watch::Receiver<u64>,
    position: u64,
    ready: VecDeque<Value>,
    ends: Instant,
    bookmark: Instant,
    over: bool,
}

impl Stream {
    /// Opens the stream. Fails as HTTP where the server would.
    pub(super) fn open(
        store: Store,
        options: Options,
        faults: watch::Receiver<Faults>,
    ) -> Result<Self, ApiError> {
        let changed = store.subscribe();
        let mut ready = VecDeque::new();
        let kind = options.kind;
        let from_state = options.initial || options.version.is_none_or(|version| version == 0);
        let position = if from_state {
            let now = store.snapshot(kind, None)?;
            let shown = now
                .objects
                .iter()
                .filter(|(_, object)| options.selector.matches(object));
            ready.extend(shown.map(|(_, object)| event("ADDED", object)));
            if options.initial {
                ready.push_back(bookmark(kind, now.version, true));
            }
            now.position
        } else {
            let (missed, position) = store.changes_after(kind, options.version.unwrap_or_default())?;
            ready.extend(
                missed
                    .iter()
                    .filter_map(|change| shown(change, &options.selector)),
            );
            position
        };
        let now = Instant::now();
        let (ends, next) = (now + options.timeout, now + options.period);
        Ok(Self {
            store,
            options,
            faults,
            changed,
            position,
            ready,
            ends,
            bookmark: next,
            over: false,
        })
    }

    /// The next line; `None` when the server ends the stream.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.faults.wait_for(|faults| !faults.hang).await.is_err() {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                let mut line = event.to_string().into_bytes();
                line.push(b'\n');
                return Some(line);
            }
            if self.over {
                return None;
            }
            tokio::select! {
                changed = self.changed.changed() => match changed {
                    Ok(()) => self.collect(),
                    Err(_) => self.over = true,
                },
                () = tokio::time::sleep_until(self.bookmark) => self.mark(),
                () = tokio::time::sleep_until(self.ends) => self.over = true,
            }
        }
    }

    fn collect(&mut self) {
        match self.store.changes_from(self.options.kind, self.position) {
            Ok((changes, position)) => {
                self.position = position;
                self.ready.extend(
                    changes
                        .iter()
                        .filter_map(|change| shown(change, &self.options.selector)),
                );
            }
            Err(error) => {
                self.ready.push_back(event("ERROR", &error.status()));
                self.over = true;
            }
        }
    }

    /// resourceVersion of everything that this stream has gone past.
    fn mark(&mut self) {
        self.bookmark = Instant::now() + self.options.period;
        self.collect();
        if self.options.bookmarks && !self.faults.borrow().no_bookmarks && !self.over {
            self.ready
                .push_back(bookmark(self.options.kind, self.store.version(), false));
        }
    }
}

/// How a change looks through a selector: objects that leave it are deleted, with their previous state.
fn shown(change: &Arc<Change>, selector: &Selector) -> Option<Value> {
    let before = change
        .previous
        .as_ref()
        .is_some_and(|object| selector.matches(object));
    let now = !change.deleted && selector.matches(&change.object);
    match (before, now) {
        (false, false) => None,
        (false, true) => Some(event("ADDED", &change.object)),
        (true, true) => Some(event("MODIFIED", &change.object)),
        (true, false) if change.deleted => Some(event("DELETED", &change.object)),
        (true, false) => {
            let mut object = change.previous.as_deref().cloned().unwrap_or_default();
            object["metadata"]["resourceVersion"] = json!(change.rv.to_string());
            Some(event("DELETED", &object))
        }
    }
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn bookmark(kind: Kind, version: u64, end_of_initial_events: bool) -> Value {
    let mut object = json!({
        "kind": kind.name(), "apiVersion": kind.api_version(), "metadata": {"resourceVersion": version.to_string()},
    });
    if end_of_initial_events {
        object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    event("BOOKMARK", &object)
}
