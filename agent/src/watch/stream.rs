//! One open stream of changes, and the requests beside it.

use super::beside::Beside;
use super::confirm::{Confirmations, Shown, Verdict};
use super::failure::{Failure, Request};
use super::line::{Line, Read};
use super::lines::Lines;
use super::list::{Listed, SILENCE, probe};
use super::narrowing::Narrowing;
use super::orders::Lists;
use super::protocol::End;
use super::session::{LIFETIME, Query, Session};
use super::wire::Entry;
use epguard_core::facts::{Change, Name, Object, Selection};
use epguard_core::freshness::Proof;
use futures::StreamExt;
use futures::io::AsyncBufRead;
use futures::stream::FuturesUnordered;
use kube::api::WatchParams;
use kube::core;
use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// Longest time until a stream begins: the server may keep the request in a queue for 15 s. A later one is asked for again,
/// from where the last one ended: a server that has yet to fill its cache sends nothing before.
const BEGUN_WITHIN: Duration = Duration::from_secs(30);

/// The state of a stream.
pub(super) struct Open<O> {
    /// When the stream was asked for, of `CLOCK_BOOTTIME`.
    sent: Duration,
    /// What a streamed list has shown so far; none once it is complete, or for a stream that begins with changes.
    initial: Option<HashMap<Name, Option<O>>>,
    pub(super) confirmations: Confirmations,
    /// Lists that were ordered, and whose moment is to come.
    ordered: Lists,
    /// Narrow lists that were asked for beside the stream.
    pub(super) beside: Vec<Beside<O>>,
    /// When the last line came.
    last_line: Instant,
}

impl Session {
    /// Reads a stream to its end. With `initial`, all existing objects come first and are kept there until complete.
    pub(super) async fn stream<O: Object>(
        &mut self,
        request: Request,
        query: &Query<O>,
        version: &str,
        initial: Option<HashMap<Name, Option<O>>>,
    ) -> Result<End, Failure> {
        let params = WatchParams {
            field_selector: if initial.is_some() {
                query.collection.selector.clone()
            } else {
                self.watched(query).selector
            },
            send_initial_events: initial.is_some(),
            ..WatchParams::default().timeout(fastrand::u32(LIFETIME))
        };
        let http = core::Request::new(request.path)
            .watch(&params, version)
            .map_err(|error| request.broken(error))?;
        let sent = (self.clock)();
        let stream = timeout(BEGUN_WITHIN, self.client.request_stream(http))
            .await
            .map_err(|elapsed| request.broken(elapsed))?
            .map_err(|error| request.failed(error))?;
        let mut stream = pin!(stream);
        if initial.is_none() {
            self.up().await;
        }
        let mut open = Open::new(sent, initial);
        let end = self.follow(request, query, &mut stream, &mut open).await;
        if open.confirmations.lacks(self.shown()) {
            self.outbox.behind().await;
        }
        if let Some(within) = open.ordered.get(&None) {
            self.orders.list(None, *within);
        }
        end
    }

    async fn follow<O: Object>(
        &mut self,
        request: Request,
        query: &Query<O>,
        stream: &mut (impl AsyncBufRead + Unpin),
        open: &mut Open<O>,
    ) -> Result<End, Failure> {
        let silent = |_| request.silent(SILENCE.as_secs());
        let (mut lines, mut line) = (Lines::default(), Vec::new());
        let (mut glimpses, mut probes) = (FuturesUnordered::new(), FuturesUnordered::new());
        let (mut moments, mut lists) = (FuturesUnordered::new(), FuturesUnordered::new());
        let orders = Arc::clone(&self.orders);
        let is_wide = open.initial.is_some() || !self.is_narrow();
        if self.cut_short && open.initial.is_none() {
            // A restored server that is older than this watch sends nothing until it reaches our version, and omits
            // what happened before. A list shows it at once.
            glimpses.push(self.glimpse(query, SILENCE));
        }
        while !self.outbox.is_closed() {
            let following = open.initial.is_none();
            let again = self.list_again().filter(|_| !is_wide);
            let wake = match self.judge(open).await {
                Verdict::Wait(wake) => wake,
                Verdict::Behind(version) => return Err(request.behind(self.protocol.highest(), version)),
                Verdict::Late => {
                    self.outbox.behind().await;
                    continue;
                }
                Verdict::Probe => {
                    let (client, collection) = (self.client.clone(), self.watched(query));
                    probes.push(probe(client, collection, self.protocol.highest()));
                    continue;
                }
            };
            // Biased: what has come is read before an answer is evaluated. Lines that gather come after it, which only delays a proof.
            tokio::select! {
                biased;
                read = timeout_at(open.last_line + SILENCE, lines.read(stream, &mut line, following)) => {
                    if !read.map_err(silent)?.map_err(|error| request.broken(error))? {
                        break;
                    }
                    open.last_line = Instant::now();
                    match Line::read(&line) {
                        Ok(Line::Error(status)) => return Err(request.refused(&status)),
                        Ok(line) => self.take(line, query, open).await,
                        Err(error) => {
                            self.protocol.count(None);
                            self.outbox.skipped(O::KIND, &error).await;
                        }
                    }
                    line.clear();
                    if is_wide && following && !self.is_narrow() {
                        self.narrow();
                    }
                    if is_wide && open.initial.is_none() && self.is_narrow() {
                        return Ok(End::Listed);
                    }
                }
                () = sleep_until(again.unwrap_or(open.last_line)), if again.is_some() => return Ok(End::Relist),
                () = orders.list.notified(), if following => {
                    moments.extend(open.order(orders.take_lists()));
                }
                Some(selection) = moments.next() => {
                    open.ordered.remove(&selection);
                    let Some(selection) = selection else { return Ok(End::Relist) };
                    open.beside.push(Beside::new(selection.clone(), self.protocol.highest()));
                    lists.push(self.list_part(query, selection));
                }
                () = orders.confirm.notified(), if following => {
                    glimpses.push(self.glimpse(query, orders.within()));
                }
                Some(answer) = glimpses.next() => self.answered(request, answer, open).await?,
                Some(probe) = probes.next() => self.probed(request, probe, open).await,
                Some(listed) = lists.next() => self.listed_part(request, listed, open).await?,
                () = sleep_until(wake.unwrap_or(open.last_line)), if wake.is_some() => {}
            }
        }
        Ok(End::Closed)
    }

    /// Sends what is proven by now. Returns how to prove the rest.
    async fn judge<O: Object>(&mut self, open: &mut Open<O>) -> Verdict {
        let shown = self.shown();
        let proven = open.confirmations.take_proven(shown);
        self.send_parts(open).await;
        if let Some((version, as_of)) = proven {
            self.outbox.proven(version, as_of, Proof::Confirmation).await;
        }
        open.confirmations.judge(shown, Instant::now())
    }

    /// When everything is to be listed again, since but one object is watched.
    fn list_again(&self) -> Option<Instant> {
        self.narrowing.as_ref().and_then(Narrowing::again)
    }

    fn is_narrow(&self) -> bool {
        self.list_again().is_some()
    }

    pub(super) fn shown(&self) -> Shown {
        Shown {
            version: self.protocol.highest(),
            objects: self.protocol.objects(),
        }
    }

    async fn take<O: Object>(&mut self, line: Line<Read<O>>, query: &Query<O>, open: &mut Open<O>) {
        match (line, open.initial.as_mut()) {
            (Line::Applied(entry), Some(seen)) => {
                let object = self.read(&entry.name, entry.object).await;
                seen.insert(entry.name, object);
            }
            (Line::Deleted(entry), Some(seen)) => {
                seen.remove(&entry.name);
            }
            (Line::Bookmark { version, complete }, Some(_)) if complete => {
                let seen = open.initial.take().unwrap_or_default();
                let count = seen.len();
                let objects = seen.into_iter();
                let listed = Listed {
                    version,
                    sent: open.sent,
                    newest: version,
                    count,
                    objects: objects
                        .filter_map(|(name, object)| Some((name, object?)))
                        .collect(),
                    unreadable: Vec::new(),
                    skipped: Vec::new(),
                };
                self.reset(listed, query).await;
                if !self.is_narrow() {
                    self.up().await;
                }
            }
            (Line::Applied(entry), None) => {
                self.protocol.count(Some(entry.new.into()));
                let version = entry.version;
                let object = self.object(entry, open).await;
                self.send(version, query, object.map(Change::Applied)).await;
            }
            (Line::Deleted(entry), None) => {
                self.protocol.count(Some(-1));
                let version = entry.version;
                let object = self.object(entry, open).await;
                self.send(version, query, object.map(Change::Deleted)).await;
            }
            (Line::Bookmark { version, .. }, None) => {
                self.protocol.advance(version);
                self.outbox.progress(version).await;
            }
            (Line::Bookmark { .. } | Line::Error(_), _) => {}
        }
    }

    /// The object of a change. A list beside the stream may lack the change, so it is recorded there too.
    async fn object<O: Object>(&self, entry: Entry<Read<O>>, open: &mut Open<O>) -> Option<O> {
        for beside in &mut open.beside {
            beside.note(&entry.name, entry.version);
        }
        self.read(&entry.name, entry.object).await
    }

    async fn send<O: Object>(&mut self, version: u64, query: &Query<O>, change: Option<Change<O>>) {
        self.protocol.advance(version);
        if let Some(change) = change {
            self.outbox.fact(version, (query.fact)(change)).await;
        }
    }

    async fn read<O: Object>(&self, name: &Name, read: Read<O>) -> Option<O> {
        let named = || match name {
            (namespace, name) if namespace.is_empty() => format!("{} {name}", O::KIND),
            (namespace, name) => format!("{} {namespace}/{name}", O::KIND),
        };
        for what in read.ignored {
            self.outbox.skipped(named(), &anyhow::anyhow!(what)).await;
        }
        match read.object {
            Ok(object) => Some(object),
            Err(error) => {
                self.outbox.skipped(named(), &error).await;
                None
            }
        }
    }
}

impl<O> Open<O> {
    fn new(sent: Duration, initial: Option<HashMap<Name, Option<O>>>) -> Self {
        Self {
            sent,
            initial,
            confirmations: Confirmations::default(),
            ordered: Lists::new(),
            beside: Vec::new(),
            last_line: Instant::now(),
        }
    }

    /// Takes lists that were ordered, but for those that are under way. Each is returned at a moment of its own.
    fn order(&mut self, lists: Lists) -> Vec<impl Future<Output = Option<Selection>> + use<O>> {
        let is_beside = |selection: &Option<Selection>| {
            let mut beside = self.beside.iter();
            beside.any(|beside| Some(&beside.selection) == selection.as_ref())
        };
        let mut new = lists;
        new.retain(|selection, _| !self.ordered.contains_key(selection) && !is_beside(selection));
        self.ordered.extend(new.clone());
        let moments = new.into_iter().map(|(selection, within)| async move {
            sleep(within.mul_f64(fastrand::f64())).await;
            selection
        });
        moments.collect()
    }
}
