//! One watch: asks what the protocol says, reads the answers, sends messages.

use super::failure::{Failure, Request};
use super::outbox::Outbox;
use super::protocol::{End, Protocol, Step};
use super::wire::{Entry, Line, Page, describe};
use crate::facts::{Change, Fact, Ignored, Name, Object};
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use kube::api::{ListParams, WatchParams};
use kube::{Client, core};
use std::{collections::HashMap, pin::pin, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// Longer than a bookmark's minute: a connection as silent as that is dead, though TCP may not know for long.
const SILENCE: Duration = Duration::from_secs(90);
/// Objects in a page, as in client-go.
const PAGE: u32 = 500;

/// The task behind one watch.
pub(super) struct Session {
    client: Client,
    outbox: Outbox,
    protocol: Protocol,
}

/// What a session asks for and what it makes of the answer.
struct Query<O> {
    selector: Option<String>,
    fact: fn(Change<O>) -> Fact,
}

impl Session {
    pub(super) fn new(client: Client, outbox: Outbox) -> Self {
        Self {
            client,
            outbox,
            protocol: Protocol::default(),
        }
    }

    /// Runs until the receiver is gone.
    pub(super) async fn run<O: Object>(mut self, selector: Option<String>, fact: fn(Change<O>) -> Fact) {
        let query = Query { selector, fact };
        while !self.outbox.is_closed() {
            let step = self.protocol.begin();
            let begun = Instant::now();
            let end = match self.attempt(step, &query).await {
                Ok(end) => end,
                Err(failure) => self.failed(failure).await,
            };
            let ceiling = self.protocol.end(end, begun.elapsed());
            sleep(ceiling.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        }
    }

    async fn attempt<O: Object>(&mut self, step: Step, query: &Query<O>) -> Result<End, Failure> {
        let request = Request { step, path: O::PATH };
        match step {
            Step::List => self.list(request, query).await,
            Step::Stream => {
                let initial = Some(HashMap::new());
                self.stream(request, query, "", initial).await
            }
            Step::Watch(version) => self.stream(request, query, &version.to_string(), None).await,
        }
    }

    async fn failed(&mut self, Failure { end, error }: Failure) -> End {
        if end == End::Unsupported {
            tracing::debug!(watch = %self.outbox.watch(), "{error}");
        } else {
            self.outbox.down(error).await;
        }
        end
    }

    async fn list<O: Object>(&mut self, request: Request, query: &Query<O>) -> Result<End, Failure> {
        let mut objects = Vec::new();
        let mut params = ListParams {
            field_selector: query.selector.clone(),
            ..ListParams::default().limit(PAGE)
        };
        loop {
            let http = core::Request::new(request.path)
                .list(&params)
                .map_err(|error| request.broken(error))?;
            let body = timeout(SILENCE, self.client.request_text(http))
                .await
                .map_err(|error| request.broken(error))?
                .map_err(|error| request.failed(error))?;
            let page = Page::parse(&body).map_err(|error| request.broken(error))?;
            for object in page.objects {
                objects.extend(self.parse(object.get().as_bytes()).await);
            }
            params.continue_token = page.next;
            if params.continue_token.is_none() {
                self.reset(page.version, objects, query).await;
                return Ok(End::Listed);
            }
        }
    }

    /// Reads a stream to its end. With `initial`, everything there is comes first and is kept there until complete.
    async fn stream<O: Object>(
        &mut self,
        request: Request,
        query: &Query<O>,
        version: &str,
        mut initial: Option<HashMap<Name, O>>,
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
        let stream = timeout(SILENCE, self.client.request_stream(http))
            .await
            .map_err(silent)?
            .map_err(|error| request.failed(error))?;
        let mut stream = pin!(stream);
        if initial.is_none() {
            self.outbox.up().await;
        }
        let mut line = Vec::new();
        while !self.outbox.is_closed() {
            line.clear();
            let complete = timeout(SILENCE, read_line(&mut stream, &mut line))
                .await
                .map_err(silent)?
                .map_err(|error| request.broken(error))?;
            if !complete {
                break;
            }
            match Line::parse(&line) {
                Ok(Line::Error(status)) => return Err(request.refused(&status)),
                Ok(line) => self.take(line, query, &mut initial).await,
                Err(error) => self.outbox.skipped(O::KIND, &error).await,
            }
        }
        Ok(End::Closed)
    }

    async fn take<O: Object>(
        &mut self,
        line: Line<'_>,
        query: &Query<O>,
        initial: &mut Option<HashMap<Name, O>>,
    ) {
        match (line, initial.as_mut()) {
            (Line::Applied(entry), Some(seen)) => {
                seen.extend(self.parse(entry.json).await.map(|object| (entry.name, object)));
            }
            (Line::Deleted(entry), Some(seen)) => {
                seen.remove(&entry.name);
            }
            (Line::Bookmark { version, complete }, Some(_)) if complete => {
                let objects = initial.take().unwrap_or_default().into_values().collect();
                self.reset(version, objects, query).await;
                self.outbox.up().await;
            }
            (Line::Bookmark { .. }, Some(_)) | (Line::Error(_), _) => {}
            (Line::Applied(entry), None) => self.change(entry, query.fact, Change::Applied).await,
            (Line::Deleted(entry), None) => self.change(entry, query.fact, Change::Deleted).await,
            (Line::Bookmark { version, .. }, None) => {
                self.protocol.advance(version);
                self.outbox.progress(version).await;
            }
        }
    }

    async fn change<O: Object>(
        &mut self,
        entry: Entry<'_>,
        fact: fn(Change<O>) -> Fact,
        change: fn(O) -> Change<O>,
    ) {
        self.protocol.advance(entry.version);
        if let Some(object) = self.parse(entry.json).await {
            self.outbox.fact(entry.version, fact(change(object))).await;
        }
    }

    async fn reset<O: Object>(&mut self, version: u64, objects: Vec<O>, query: &Query<O>) {
        if let Some(before) = self.protocol.listed(version) {
            tracing::warn!(
                watch = %self.outbox.watch(),
                "the API went back in time, from resourceVersion {before} to {version}: was etcd restored? \
                 Everything is taken from the new list"
            );
        }
        self.outbox
            .fact(version, (query.fact)(Change::Reset(objects)))
            .await;
    }

    async fn parse<O: Object>(&self, json: &[u8]) -> Option<O> {
        let mut ignored = Ignored::new();
        match O::read(json, &mut ignored) {
            Ok(object) => {
                for what in ignored {
                    let of = format!("{} {}", O::KIND, describe(json));
                    self.outbox.skipped(of, &anyhow::anyhow!(what)).await;
                }
                Some(object)
            }
            Err(error) => {
                let what = format!("{} {}", O::KIND, describe(json));
                self.outbox.skipped(what, &error).await;
                None
            }
        }
    }
}

/// Reads a line without its end. False: the stream is over; what came of a last line then is cut off and will
/// be sent again to whoever resumes.
async fn read_line(stream: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    stream.read_until(b'\n', line).await?;
    Ok(line.pop_if(|last| *last == b'\n').is_some())
}
