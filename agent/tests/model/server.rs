//! The API server's answers over the store: lists, streams of changes, bookmarks, 410.

use super::*;
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use hyper::{Request, Response, Uri};
use kube::client::Body;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::{Instant, sleep_until, timeout_at};

type Answer = Response<Channel<Bytes>>;

/// The store, shared by the world and its clients.
#[derive(Clone)]
pub struct Api(Arc<Mutex<Store>>);

/// How often a stream gets a bookmark.
const BOOKMARKS: Duration = Duration::from_mins(1);

impl Api {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Store::new())))
    }

    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client whose requests this server answers.
    pub fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = api.answer(request.uri());
            async move { answer.ok_or("connection refused") }
        });
        kube::Client::new(service, "default")
    }

    fn answer(&self, uri: &Uri) -> Option<Answer> {
        let (kind, namespace) = Store::kind_at(uri.path())?;
        if !self.store().up {
            return None;
        }
        let number = |name: &str| param(uri, name).and_then(|value| value.parse::<u64>().ok());
        if param(uri, "watch").is_none() {
            let selector = Selector::new(uri, namespace);
            return Some(self.list(kind, &selector, number("limit").unwrap_or(500)));
        }
        let timeout = Duration::from_secs(number("timeoutSeconds").unwrap_or(300));
        let initial = param(uri, "sendInitialEvents").is_some();
        let after = number("resourceVersion").unwrap_or(0);
        let compacted = self.store().compacted;
        if !initial && after < compacted {
            return Some(text(
                410,
                r#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired"}"#,
            ));
        }
        let (sender, body) = Channel::<Bytes, Infallible>::new(64);
        let stream = Stream {
            api: self.clone(),
            kind,
            sender,
            end: Instant::now() + timeout,
            probe: timeout < Duration::from_secs(10),
        };
        tokio::spawn(async move {
            // The client hung up, which is no error.
            let _ = stream.run(initial, after).await;
        });
        Some(Response::new(body))
    }

    fn list(&self, kind: usize, selector: &Selector, limit: u64) -> Answer {
        let mut store = self.store();
        let version = store.revision;
        let kind = &mut store.kinds[kind];
        let limit = usize::try_from(limit).unwrap_or(500);
        let all = kind
            .objects
            .values()
            .filter(|object| selector.matches(&object.json));
        let shown: Vec<_> = all.take(limit).cloned().collect();
        if limit >= 500 && selector.is_all() {
            let last = kind.last();
            kind.deliver(last);
        } else if let Some(newest) = shown.iter().map(|object| object.number).max() {
            kind.show_elsewhere(newest);
        }
        let more = selector.is_all() && kind.objects.len() > limit;
        let next = if more { "more" } else { "" };
        let items: Vec<&str> = shown.iter().map(|object| object.json.as_str()).collect();
        let items = items.join(",");
        text(
            200,
            &format!(
                r#"{{"metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{items}]}}"#
            ),
        )
    }
}

struct Stream {
    api: Api,
    kind: usize,
    sender: Sender<Bytes>,
    end: Instant,
    /// Short, asked for beside the agent's stream: without delay.
    probe: bool,
}

impl Stream {
    async fn run(mut self, initial: bool, after: u64) -> Option<()> {
        let mut changes = self.api.store().changes();
        let epoch = self.api.store().kinds[self.kind].epoch;
        let mut sent = if initial { self.begin().await? } else { 0 };
        let mut version = after;
        if initial {
            version = 0;
        }
        let mut bookmark = self.next_bookmark();
        loop {
            changes.mark_unchanged();
            let (events, next) = self.due(sent, version, epoch)?;
            for event in events {
                (sent, version) = (event.number, event.version);
                let change = event.change.unwrap_or("MODIFIED");
                self.send(line(change, &event.json)).await?;
                let mut store = self.api.store();
                if self.probe {
                    store.kinds[self.kind].show_elsewhere(event.number);
                } else {
                    store.kinds[self.kind].deliver(event.number);
                }
            }
            let now = Instant::now();
            if now >= self.end {
                return Some(());
            }
            if now >= bookmark {
                bookmark = self.next_bookmark();
                self.bookmark(sent, version).await?;
            }
            let wake = next.unwrap_or(self.end).min(bookmark).min(self.end);
            // An error would mean that the store is gone; the time is what is waited for otherwise.
            let _ = timeout_at(wake, changes.changed()).await;
        }
    }

    /// All objects, and the bookmark that ends the initial events. Returns the last change of it.
    async fn begin(&mut self) -> Option<u64> {
        let (mut lines, version, last) = {
            let store = self.api.store();
            let kind = &store.kinds[self.kind];
            let lines: Vec<String> = kind
                .objects
                .values()
                .map(|object| line("ADDED", &object.json))
                .collect();
            (lines, store.revision, kind.last())
        };
        lines.push(bookmark(
            version,
            &json!({"k8s.io/initial-events-end": "true"}),
        ));
        self.send(lines.concat()).await?;
        self.api.store().kinds[self.kind].deliver(last);
        Some(last)
    }

    /// The changes to show now, and when the next one is due. None: the stream is over.
    fn due(&self, sent: u64, version: u64, epoch: u64) -> Option<(Vec<Event>, Option<Instant>)> {
        let store = self.api.store();
        let kind = &store.kinds[self.kind];
        if kind.epoch != epoch || !store.up {
            return None;
        }
        if kind.stalled && !self.probe {
            return Some((Vec::new(), None));
        }
        let lag = if self.probe { Duration::ZERO } else { kind.lag };
        let (due, late): (Vec<&Event>, Vec<&Event>) = kind
            .log
            .iter()
            .filter(|event| {
                event.number > sent && event.version > version && event.change.is_some()
            })
            .partition(|event| event.at + lag <= Instant::now());
        let next = late.first().map(|event| event.at + lag);
        Some((due.into_iter().cloned().collect(), next))
    }

    async fn bookmark(&mut self, sent: u64, after: u64) -> Option<()> {
        let (version, shows) = {
            let store = self.api.store();
            let kind = &store.kinds[self.kind];
            (
                store.revision,
                (self.probe || !kind.stalled)
                    && !kind.log.iter().any(|event| {
                        event.number > sent && event.version > after && event.change.is_some()
                    }),
            )
        };
        if version >= after && shows {
            self.send(bookmark(version, &Value::Null)).await?;
        }
        Some(())
    }

    fn next_bookmark(&self) -> Instant {
        let before_end = self
            .end
            .checked_sub(Duration::from_secs(2))
            .unwrap_or(self.end);
        let soon = Instant::now() + BOOKMARKS;
        if before_end > Instant::now() {
            soon.min(before_end)
        } else {
            self.end
        }
    }

    async fn send(&mut self, lines: String) -> Option<()> {
        self.sender.send_data(Bytes::from(lines)).await.ok()
    }
}

fn bookmark(version: u64, annotations: &Value) -> String {
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
    line("BOOKMARK", &json!({"metadata": metadata}).to_string())
}

fn line(change: &str, object: &str) -> String {
    format!("{{\"type\":\"{change}\",\"object\":{object}}}\n")
}

/// Waits until a moment, and lets all other work that is due then go first.
pub async fn until(at: Instant) {
    sleep_until(at).await;
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

fn text(code: u16, body: &str) -> Answer {
    let (mut sender, channel) = Channel::<Bytes, Infallible>::new(1);
    // One frame fits into an empty channel.
    let _ = sender.try_send(hyper::body::Frame::data(Bytes::from(body.to_owned())));
    let mut answer = Response::new(channel);
    *answer.status_mut() = hyper::StatusCode::from_u16(code).unwrap_or_default();
    answer
}
