//! One open stream of changes. [`beside`](super::beside) has the requests beside it.

use super::beside::Open;
use super::collection::Collection;
use super::confirm::{Probe, Verdict};
use super::line::{Entry, Kind, Line};
use super::lines::Lines;
use super::list::{Listed, SILENCE};
use super::protocol::End;
use super::{Event, order_list, session::Session};
use anyhow::{Result, anyhow};
use epguard_core::facts::{Change, Object};
use epguard_core::freshness::Proof;
use futures::{AsyncBufReadExt, StreamExt, io::AsyncBufRead};
use kube::{Client, api::WatchParams, core};
use std::{mem::take, ops::Range, pin::pin, time::Duration};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Longest time until a stream begins: the server may keep the request in a queue for 15 s. A later
/// one is asked for again, from where the last one ended: a server that has yet to fill its cache
/// sends nothing before.
const BEGUN_WITHIN: Duration = Duration::from_secs(30);
/// Seconds after which the server ends a stream; watches draw theirs at random, apart from each
/// other.
pub(super) const LIFETIME: Range<u32> = 270..330;
/// Longest life of a probe in seconds; the bookmark comes after one, and the server's timers may
/// add another.
const PROBE: u32 = 3;
/// Longest wait for a probe.
const PROBED_WITHIN: Duration = Duration::from_secs(20);

impl<O: Object> Session<O> {
    /// Reads a stream of the changes after a version to its end; without one, all existing objects
    /// come first.
    pub(super) async fn stream(&mut self, after: Option<u64>) -> Result<End> {
        self.open = Open::new((self.clock)(), after.is_none());
        let shown = self.shown_part();
        let watch = watch(&self.client, &shown, after, fastrand::u32(LIFETIME));
        let stream = timeout(BEGUN_WITHIN, watch).await??;
        if self.is_following() {
            self.up().await;
        }
        let end = self.follow(&mut pin!(stream)).await;
        self.open.requests.clear();
        if self.open.confirmations.lacks(self.protocol.shown) {
            self.send(Event::Behind).await;
        }
        // The next stream goes on with what has not come.
        for (selection, within) in take(&mut self.open.ordered) {
            order_list(&self.orders, selection, within);
        }
        end
    }

    async fn follow(&mut self, stream: &mut (impl AsyncBufRead + Unpin)) -> Result<End> {
        let (mut lines, mut line, mut last_line) = (Lines::default(), Vec::new(), Instant::now());
        let silent = || {
            anyhow!(
                "neither event nor bookmark for {} s; connecting again",
                SILENCE.as_secs()
            )
        };
        if self.cut_short && self.is_following() {
            // A restored server that is older than this watch sends nothing until it reaches our
            // version, and omits what happened before. A list shows it at once.
            self.confirm(SILENCE);
        }
        while !self.messages.is_closed() {
            let following = self.is_following();
            let wake = self.judge().await?;
            // Biased: what has come is read before an answer is evaluated. Lines that gather come
            // after it, which only delays a proof.
            tokio::select! {
                biased;
                read = timeout_at(last_line + SILENCE, lines.next_line(stream, &mut line, following)) => {
                    if !read.map_err(|_| silent().context(End::Silent))?? {
                        break;
                    }
                    last_line = Instant::now();
                    if lines.was_empty {
                        lines.was_empty = false;
                        self.behind = None;
                    }
                    self.take(Line::parse(&line)).await?;
                    line.clear();
                    if self.again.is_none() && self.is_following() {
                        if self.narrows() {
                            return Ok(End::Listed);
                        }
                        self.up().await;
                    }
                }
                () = sleep_until(self.again.unwrap_or(last_line)), if self.again.is_some() => return Ok(End::Relist),
                Ok(()) = self.ordered.changed(), if following => self.order(),
                Some(done) = self.open.requests.next() => {
                    if let Some(end) = self.done(done).await? {
                        return Ok(end);
                    }
                }
                () = sleep_until(wake.unwrap_or(last_line)), if wake.is_some() => {}
            }
        }
        Ok(End::Closed)
    }

    /// Sends what is proven by now, and begins to prove the rest. Returns when to look again.
    async fn judge(&mut self) -> Result<Option<Instant>> {
        let shown = self.protocol.shown;
        let proven = self.open.confirmations.take_proven(shown);
        self.send_parts().await;
        if let Some((version, as_of)) = proven {
            self.proven(version, as_of, Proof::Confirmation).await;
        }
        loop {
            match self.open.confirmations.judge(shown, Instant::now()) {
                Verdict::Wait(wake) => return Ok(wake),
                Verdict::Probe => self.probe(),
                Verdict::Late => self.send(Event::Behind).await,
                Verdict::Behind(version) => {
                    let error = anyhow!(
                        "a list shows resourceVersion {version}, and the watch has stopped at {}; connecting again",
                        shown.version
                    );
                    return Err(error.context(End::Failed));
                }
            }
        }
    }

    /// The objects that the stream shows.
    pub(super) fn shown_part(&self) -> Collection {
        let all = self.collection.clone();
        match &self.narrowing {
            Some(narrowing) if self.again.is_some() => all.named(&narrowing.name),
            _ => all,
        }
    }

    /// True if the stream shows changes, not the objects of a list.
    fn is_following(&self) -> bool {
        self.open.initial.is_none()
    }

    async fn take(&mut self, line: anyhow::Result<Line<O>>) -> Result<()> {
        match (line, &mut self.open.initial) {
            (Ok(Line::Error(status)), _) => return Err(kube::Error::Api(status).into()),
            (Err(error), _) => {
                self.protocol.count(None);
                self.skipped(&format!("{}: {error:#}", O::KIND)).await;
            }
            (Ok(Line::Object(Kind::Deleted, entry)), Some(initial)) => {
                drop(initial.remove(&entry.name));
            }
            (Ok(Line::Object(_, entry)), Some(initial)) => {
                initial.insert(entry.name.clone(), entry);
            }
            (Ok(Line::Object(kind, entry)), None) => self.change(kind, entry).await,
            (Ok(Line::Bookmark { version, .. }), None) => {
                self.protocol.advance(version);
                self.send(Event::Progress(version)).await;
            }
            (Ok(Line::Bookmark { version, complete }), initial) => {
                if let Some(initial) = initial.take_if(|_| complete) {
                    let listed = Listed {
                        version,
                        sent: self.open.sent,
                        entries: initial.into_values().collect(),
                        whole: true,
                    };
                    self.reset(listed).await;
                }
            }
        }
        Ok(())
    }

    async fn change(&mut self, kind: Kind, mut entry: Entry<O>) {
        // A list beside the stream may lack the change.
        for beside in &mut self.open.beside {
            beside.changed.insert(entry.name.clone(), entry.version);
        }
        let version = entry.version;
        let (more, change): (_, fn(O) -> _) = match kind {
            Kind::Deleted => (-1, Change::Deleted),
            kind => (isize::from(kind == Kind::Added), Change::Applied),
        };
        let bare = entry.bare.take();
        let object = self.object(entry).await;
        self.protocol.count(Some(more));
        self.protocol.advance(version);
        let change = match (object, kind) {
            (Some(object), _) => Some(change(object)),
            (None, Kind::Deleted) => bare.map(Change::Gone),
            (None, _) => None,
        };
        if let Some(change) = change {
            self.send_fact(version, (self.fact)(change)).await;
        }
    }
}

/// Asks for the changes after a version, for so many seconds; without one, all existing objects
/// come first.
async fn watch(
    client: &Client,
    collection: &Collection,
    after: Option<u64>,
    seconds: u32,
) -> Result<impl AsyncBufRead + use<>> {
    let params = WatchParams {
        field_selector: collection.fields.clone(),
        send_initial_events: after.is_none(),
        ..WatchParams::default().timeout(seconds)
    };
    let after = after.map(|version| version.to_string()).unwrap_or_default();
    let http = core::Request::new(&*collection.path).watch(&params, &after)?;
    Ok(client.request_stream(http).await?)
}

/// Watches the changes after a resourceVersion, up to the bookmark that a server sends 2 s before a
/// watch times out (`cache_watcher.go:nextBookmarkTime`).
pub(super) async fn probe<O: Object>(
    client: Client,
    shown: Collection,
    after: u64,
) -> Result<Probe> {
    let read = async {
        let mut lines = pin!(watch(&client, &shown, Some(after), PROBE).await?.lines());
        let mut first = None;
        let mut last = after;
        while let Some(line) = lines.next().await {
            match Line::<O>::parse(line?.as_bytes())? {
                Line::Object(_, entry) => {
                    if first.is_none() {
                        first = Some((entry.version, Instant::now()));
                    }
                    last = last.max(entry.version);
                }
                Line::Bookmark { version, .. } => {
                    return Ok(Probe {
                        first,
                        last,
                        through: version,
                    });
                }
                Line::Error(status) => return Err(kube::Error::Api(status).into()),
            }
        }
        Ok(Probe {
            first,
            last,
            through: last,
        })
    };
    timeout(PROBED_WITHIN, read).await?
}
