//! Watch streams.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream;
use hyper::Response;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::reply::{self, Body};
use super::verbs::PATIENCE;
use super::{Api, ApiCall};
use crate::api::object::{Selector, encode};
use crate::api::store::{ObjectChange, State};
use crate::api::{ApiError, Faults, Kind, Store};

/// Life of a stream unless the client sets a timeout, as in the real server.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
/// Time between bookmarks, as in the real server.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// How long before a stream's end its last bookmark is sent, as in the real server
/// (`cache_watcher.go:nextBookmarkTime`).
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Stands for "no timer".
const NEVER: Duration = Duration::from_hours(365 * 24);

/// Type and object of an event. Streams that wait to send the same object share its JSON.
type Event = (&'static str, Bytes);

/// One open stream.
struct Watch {
    kind: Kind,
    selector: Selector,
    /// Events not yet sent.
    pending: VecDeque<Event>,
    /// The resourceVersion whose changes, and those before, have been read or are not asked for.
    rv: u64,
    bookmarks: bool,
    last_bookmark: Instant,
    deadline: Instant,
    changes: Receiver<State>,
    faults: Receiver<Faults>,
    over: bool,
}

impl Api {
    pub(super) async fn watch(&self, call: &ApiCall) -> Result<Response<Body>, ApiError> {
        let query = &call.query;
        let (asked, may_be_newer) = query.version()?;
        let initial_events = query.flag("sendInitialEvents");
        if initial_events != may_be_newer {
            return Err(ApiError::invalid(
                "sendInitialEvents requires resourceVersionMatch=NotOlderThan, and the reverse",
            ));
        }
        if initial_events && self.faults.borrow().pages_only {
            return Err(ApiError::invalid(
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ));
        }
        let with_state = asked == 0 || initial_events;
        let timeout = query
            .number("timeoutSeconds")?
            .filter(|seconds| *seconds > 0)
            .map_or(DEFAULT_TIMEOUT, Duration::from_secs)
            .min(NEVER);
        if with_state {
            self.store.wait_for(asked, PATIENCE).await?;
        }
        let mut watch = Watch {
            changes: self.store.subscribe(),
            kind: call.kind,
            selector: call.selector()?,
            pending: VecDeque::new(),
            rv: asked,
            bookmarks: query.flag("allowWatchBookmarks"),
            last_bookmark: Instant::now(),
            deadline: Instant::now() + timeout,
            faults: self.faults.clone(),
            over: false,
        };
        let opened = if with_state {
            watch.begin_with_state(&self.store, initial_events)
        } else {
            watch.changes.borrow().of(call.kind).check(asked)
        };
        if let Err(error) = opened {
            watch.fail(&error);
        }
        Ok(reply::send(stream::unfold(watch, |mut watch| async {
            let (event_type, json) = watch.next().await?;
            let head = format!("{{\"type\":\"{event_type}\",\"object\":");
            Some(([head.as_bytes(), &*json, b"}\n"].concat().into(), watch))
        })))
    }
}

impl Watch {
    /// Begins with an ADDED for every object; `streaming` lists end with a marked bookmark.
    fn begin_with_state(&mut self, store: &Store, streaming: bool) -> Result<(), ApiError> {
        let cached = self.faults.borrow().cached;
        let mut page = store.page(self.kind, &self.selector, cached, None, usize::MAX)?;
        self.faults.borrow().poison(self.kind, &mut page.items);
        self.pending = page
            .items
            .iter()
            .map(|object| ("ADDED", object.json.clone()))
            .collect();
        self.rv = page.rv;
        if streaming && self.bookmarks {
            let end = json!({"k8s.io/initial-events-end": "true"});
            self.pending
                .push_back(bookmark(self.kind, self.rv, Some(end)));
        }
        Ok(())
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let kind = self.kind;
            self.faults
                .wait_for(move |faults: &Faults| !faults.mute.contains(&kind))
                .await
                .ok()?;
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            self.faults
                .wait_for(|faults| faults.cached.is_none())
                .await
                .ok()?;
            if self.over {
                return None;
            }
            let (changes, rv) = {
                let state = self.changes.borrow_and_update();
                (state.of(kind).since(self.rv), state.revision)
            };
            match changes {
                Ok(changes) => {
                    self.pending.extend(
                        changes
                            .iter()
                            .filter_map(|change| select(&self.selector, change)),
                    );
                    // A stream from a later version begins there.
                    self.rv = self.rv.max(rv);
                }
                Err(error) => self.fail(&error),
            }
            if self.pending.is_empty() {
                self.wait().await;
            }
        }
    }

    /// Waits for a change, a bookmark's time, or the end.
    async fn wait(&mut self) {
        let period = self
            .faults
            .borrow_and_update()
            .bookmark_period
            .unwrap_or(BOOKMARK_PERIOD);
        let period = if self.bookmarks {
            period.min(NEVER)
        } else {
            NEVER
        };
        let last = self.deadline.checked_sub(LAST_BOOKMARK);
        let last = last.filter(|last| period < NEVER && *last > self.last_bookmark);
        let regular = self.last_bookmark + period;
        let bookmark_at = last.map_or(regular, |last| last.min(regular));
        tokio::select! {
            changed = self.changes.changed() => self.over |= changed.is_err(),
            changed = self.faults.changed() => self.over |= changed.is_err(),
            () = sleep_until(self.deadline) => self.over = true,
            () = sleep_until(bookmark_at) => {
                self.last_bookmark = Instant::now();
                if self.changes.borrow().revision >= self.rv {
                    self.pending.push_back(bookmark(self.kind, self.rv, None));
                }
            }
        }
    }

    fn fail(&mut self, error: &ApiError) {
        self.pending.push_back(("ERROR", encode(&error.status())));
        self.over = true;
    }
}

/// A change as seen through a selector: objects that enter it are ADDED, objects that leave it
/// DELETED.
fn select(selector: &Selector, change: &ObjectChange) -> Option<Event> {
    let before = change
        .previous
        .as_ref()
        .filter(|previous| selector.matches(previous));
    let name = match (before, selector.matches(&change.object)) {
        (Some(_), _) if change.deleted => "DELETED",
        (None, true) if !change.deleted => "ADDED",
        (None, _) => return None,
        (Some(_), true) => "MODIFIED",
        (Some(before), false) => {
            let mut left = before.value();
            left["metadata"]["resourceVersion"] = change.rv.to_string().into();
            return Some(("DELETED", encode(&left)));
        }
    };
    Some((name, change.object.json.clone()))
}

/// A bookmark, with the empty fields that the real server's typed objects have.
fn bookmark(kind: Kind, rv: u64, annotations: Option<Value>) -> Event {
    let mut object = match kind {
        Kind::Pod => json!({"spec": {"containers": null}, "status": {}}),
        Kind::Service => json!({"spec": {}, "status": {"loadBalancer": {}}}),
        Kind::EndpointSlice => json!({"addressType": "", "endpoints": null, "ports": null}),
        Kind::Node | Kind::Namespace => json!({"spec": {}, "status": {}}),
        _ => json!({}),
    };
    object["kind"] = kind.to_string().into();
    object["apiVersion"] = kind.api_version().into();
    object["metadata"] = json!({"resourceVersion": rv.to_string()});
    if let Some(annotations) = annotations {
        object["metadata"]["annotations"] = annotations;
    }
    ("BOOKMARK", encode(&object))
}
