//! One open stream of changes, and what is asked beside it.

use super::confirm::{Answer, Verdict};
use super::failure::{Failure, Request};
use super::list::{Glimpse, Listed, glimpse};
use super::protocol::End;
use super::session::{Query, SILENCE, Session};
use super::wire::{Entry, Line, describe};
use crate::clock::boot;
use crate::facts::{Change, Fact, Ignored, Name, Object};
use crate::freshness::Proof;
use futures::StreamExt;
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::stream::FuturesUnordered;
use kube::api::WatchParams;
use kube::core;
use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Events prove a watch fresh at most this often.
const EVENT_PROOFS: Duration = Duration::from_secs(1);

/// Where a stream stands.
struct Open<O> {
    /// When it was asked for, of `CLOCK_BOOTTIME`.
    sent: Duration,
    /// What a streamed list has shown so far; none once it is complete, or for a stream that begins with changes.
    initial: Option<HashMap<Name, O>>,
    /// Whether everything from before the stream began has come. Until then an event may be an old one.
    live: bool,
    /// Changes up to here were in a list already.
    covered: u64,
    /// A confirmation that waits for the stream.
    answer: Option<Answer>,
    /// When the last line came.
    heard: Instant,
    /// When an event was proof last, of `CLOCK_BOOTTIME`.
    event: Duration,
}

impl Session {
    /// Reads a stream to its end. With `initial`, everything there is comes first and is kept there until complete.
    pub(super) async fn stream<O: Object>(
        &mut self,
        request: Request,
        query: &Query<O>,
        version: &str,
        initial: Option<HashMap<Name, O>>,
    ) -> Result<End, Failure> {
        let params = WatchParams {
            field_selector: query.selector.clone(),
            send_initial_events: initial.is_some(),
            ..WatchParams::default().timeout(fastrand::u32(270..330))
        };
        let http = core::Request::new(request.path)
            .watch(&params, version)
            .map_err(|error| request.broken(error))?;
        let silent = |_| request.silent(SILENCE.as_secs());
        let sent = boot();
        let stream = timeout(SILENCE, self.client.request_stream(http))
            .await
            .map_err(silent)?
            .map_err(|error| request.failed(error))?;
        let mut stream = pin!(stream);
        if initial.is_none() {
            self.outbox.up().await;
        }
        let mut open = Open::new(sent, initial);
        let mut line = Vec::new();
        let mut glimpses = FuturesUnordered::new();
        let orders = Arc::clone(&self.orders);
        while !self.outbox.is_closed() {
            let following = open.initial.is_none();
            let wake = self.judge(request, &mut open).await?;
            // Biased: whatever has come is read before anything is made of an answer.
            tokio::select! {
                biased;
                read = timeout_at(open.heard + SILENCE, read_line(&mut stream, &mut line)) => {
                    if !read.map_err(silent)?.map_err(|error| request.broken(error))? {
                        break;
                    }
                    open.heard = Instant::now();
                    match Line::parse(&line) {
                        Ok(Line::Error(status)) => return Err(request.refused(&status)),
                        Ok(line) => self.take(line, query, &mut open).await,
                        Err(error) => self.outbox.skipped(O::KIND, &error).await,
                    }
                    line.clear();
                }
                () = orders.relist.notified(), if following => self.relist(query, &mut open).await?,
                () = orders.confirm.notified(), if following => {
                    let (client, selector) = (self.client.clone(), query.selector.clone());
                    glimpses.push(glimpse::<O>(client, selector, self.protocol.highest()));
                }
                Some(answer) = glimpses.next() => self.answered(answer, &mut open).await,
                () = sleep_until(wake.unwrap_or(open.heard)), if wake.is_some() => {}
            }
        }
        Ok(End::Closed)
    }

    async fn answered<O>(&mut self, answer: Result<Glimpse, Failure>, open: &mut Open<O>) {
        match answer {
            Ok(glimpse) => {
                let at = Instant::now();
                open.answer.get_or_insert(Answer { glimpse, at });
            }
            Err(failure) => self.outbox.unconfirmed(failure.error).await,
        }
    }

    /// Makes of an answer what can be made of it by now. Returns when there is more to say, if nothing comes until then.
    async fn judge<O>(&mut self, request: Request, open: &mut Open<O>) -> Result<Option<Instant>, Failure> {
        let Some(answer) = open.answer else {
            return Ok(None);
        };
        let Glimpse {
            sent,
            seen,
            version,
            object,
        } = answer.glimpse;
        if answer.is_rewound() {
            let failure = request.rewound(seen, version);
            self.protocol.rewound();
            self.outbox.rewound(failure.error.clone()).await;
            return Err(failure);
        }
        let watched = self.protocol.highest();
        match answer.judge(watched, open.heard, Instant::now()) {
            Verdict::Wait(until) => return Ok(Some(until)),
            Verdict::Behind => return Err(request.behind(watched, object)),
            Verdict::Confirmed => {}
        }
        (open.answer, open.live) = (None, true);
        self.outbox.proven(sent, Proof::Confirmation).await;
        Ok(None)
    }

    /// Lists while nothing is read, so that the list is the newer one; what it covers is left out of the stream.
    async fn relist<O: Object>(&mut self, query: &Query<O>, open: &mut Open<O>) -> Result<(), Failure> {
        let listed = self.list(query).await.map_err(|failure| Failure {
            end: End::Expired,
            ..failure
        })?;
        (open.covered, open.answer) = (listed, None);
        open.heard = Instant::now();
        Ok(())
    }

    async fn take<O: Object>(&mut self, line: Line<'_>, query: &Query<O>, open: &mut Open<O>) {
        match (line, open.initial.as_mut()) {
            (Line::Applied(entry), Some(seen)) => {
                seen.extend(self.parse(entry.json).await.map(|object| (entry.name, object)));
            }
            (Line::Deleted(entry), Some(seen)) => {
                seen.remove(&entry.name);
            }
            (Line::Bookmark { version, complete }, Some(_)) if complete => {
                let objects = open.initial.take().unwrap_or_default().into_values().collect();
                let (sent, skipped) = (open.sent, Vec::new());
                let listed = Listed {
                    version,
                    sent,
                    objects,
                    skipped,
                };
                self.reset(listed, query).await;
                open.live = true;
                self.outbox.up().await;
            }
            (Line::Bookmark { .. }, Some(_)) | (Line::Error(_), _) => {}
            (Line::Applied(entry), None) => self.change(entry, query.fact, Change::Applied, open).await,
            (Line::Deleted(entry), None) => self.change(entry, query.fact, Change::Deleted, open).await,
            (Line::Bookmark { version, .. }, None) => self.bookmark(version, open).await,
        }
    }

    async fn change<O: Object>(
        &mut self,
        entry: Entry<'_>,
        fact: fn(Change<O>) -> Fact,
        change: fn(O) -> Change<O>,
        open: &mut Open<O>,
    ) {
        if entry.version <= open.covered {
            return;
        }
        let newer = self.protocol.advance(entry.version);
        if let Some(object) = self.parse(entry.json).await {
            self.outbox.fact(entry.version, fact(change(object))).await;
        }
        let now = boot();
        if newer && open.live && now >= open.event + EVENT_PROOFS {
            open.event = now;
            self.outbox.proven(now, Proof::Event).await;
        }
    }

    async fn bookmark<O>(&mut self, version: u64, open: &mut Open<O>) {
        if version <= open.covered {
            return;
        }
        let newer = self.protocol.advance(version);
        self.outbox.progress(version).await;
        if newer {
            open.live = true;
            self.outbox.proven(boot(), Proof::Bookmark).await;
        }
    }

    async fn parse<O: Object>(&self, json: &[u8]) -> Option<O> {
        let mut ignored = Ignored::new();
        let read = O::read(json, &mut ignored);
        let named = || format!("{} {}", O::KIND, describe(json));
        for what in ignored {
            self.outbox.skipped(named(), &anyhow::anyhow!(what)).await;
        }
        match read {
            Ok(object) => Some(object),
            Err(error) => {
                self.outbox.skipped(named(), &error).await;
                None
            }
        }
    }
}

impl<O> Open<O> {
    fn new(sent: Duration, initial: Option<HashMap<Name, O>>) -> Self {
        Self {
            sent,
            initial,
            live: false,
            covered: 0,
            answer: None,
            heard: Instant::now(),
            event: Duration::ZERO,
        }
    }
}

/// Reads a line without its end; dropped and called again with the same buffer, it goes on. False: the stream is over;
/// what came of a last line then is cut off and will be sent again to whoever resumes.
async fn read_line(stream: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    stream.read_until(b'\n', line).await?;
    Ok(line.pop_if(|last| *last == b'\n').is_some())
}
