//! One open stream of changes. [`beside`](super::beside) has the requests beside it.

use super::confirm::{Shown, Verdict};
use super::failure::Failure;
use super::line::{Entry, Kind, Line};
use super::lines::Lines;
use super::list::{Listed, SILENCE};
use super::open::Open;
use super::protocol::End;
use super::session::{LIFETIME, Session};
use super::{Event, collection::Collection};
use epguard_core::facts::{Change, Object};
use epguard_core::freshness::Proof;
use futures::{StreamExt, io::AsyncBufRead};
use kube::{api::WatchParams, core};
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Longest time until a stream begins: the server may keep the request in a queue for 15 s. A later one is asked for again,
/// from where the last one ended: a server that has yet to fill its cache sends nothing before.
const BEGUN_WITHIN: Duration = Duration::from_secs(30);

impl<O: Object> Session<O> {
    /// Reads a stream of the changes after a version to its end; without one, all existing objects come first.
    pub(super) async fn stream(&mut self, after: Option<u64>) -> Result<End, Failure> {
        self.open = Open::new((self.clock)(), after.is_none());
        let params = WatchParams {
            field_selector: self.shown_part().fields,
            send_initial_events: after.is_none(),
            ..WatchParams::default().timeout(fastrand::u32(LIFETIME))
        };
        let after = after.map(|version| version.to_string()).unwrap_or_default();
        let http = core::Request::new(&*self.collection.path)
            .watch(&params, &after)
            .map_err(|error| self.request().broken(error))?;
        let stream = timeout(BEGUN_WITHIN, self.client.request_stream(http))
            .await
            .map_err(|elapsed| self.request().broken(elapsed))?
            .map_err(|error| self.request().failed(error))?;
        if self.is_following() {
            self.up().await;
        }
        let end = self.follow(&mut pin!(stream)).await;
        self.open.requests.clear();
        if self.open.confirmations.lacks(self.shown()) {
            self.send(Event::Behind).await;
        }
        if let Some(within) = self.open.ordered.remove(&None) {
            self.orders.send_modify(|orders| {
                orders.lists.insert(None, within);
            });
        }
        end
    }

    async fn follow(&mut self, stream: &mut (impl AsyncBufRead + Unpin)) -> Result<End, Failure> {
        let (mut lines, mut line, mut last_line) = (Lines::default(), Vec::new(), Instant::now());
        let is_wide = !self.is_following() || self.again().is_none();
        if self.cut_short && self.is_following() {
            // A restored server that is older than this watch sends nothing until it reaches our version, and omits
            // what happened before. A list shows it at once.
            self.confirm(SILENCE);
        }
        while !self.messages.is_closed() {
            let following = self.is_following();
            let again = self.again().filter(|_| !is_wide);
            let wake = match self.judge().await {
                Verdict::Wait(wake) => wake,
                Verdict::Behind(version) => {
                    let error = format!(
                        "a list shows resourceVersion {version}, and the watch has stopped at {}; connecting again",
                        self.protocol.highest
                    );
                    return Err(self.request().failure(End::Failed, &error));
                }
                Verdict::Late => {
                    self.send(Event::Behind).await;
                    continue;
                }
                Verdict::Probe => {
                    self.probe();
                    continue;
                }
            };
            // Biased: what has come is read before an answer is evaluated. Lines that gather come after it, which only delays a proof.
            tokio::select! {
                biased;
                read = timeout_at(last_line + SILENCE, lines.next_line(stream, &mut line, following)) => {
                    if !read.map_err(|_| self.request().silent(SILENCE))?.map_err(|error| self.request().broken(error))? {
                        break;
                    }
                    last_line = Instant::now();
                    self.take(Line::parse(&line)).await?;
                    line.clear();
                    if is_wide && self.is_following() {
                        if self.narrows() {
                            return Ok(End::Listed);
                        }
                        self.up().await;
                    }
                }
                () = sleep_until(again.unwrap_or(last_line)), if again.is_some() => return Ok(End::Relist),
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

    /// Sends what is proven by now. Returns how to prove the rest.
    async fn judge(&mut self) -> Verdict {
        let shown = self.shown();
        let proven = self.open.confirmations.take_proven(shown);
        self.send_parts().await;
        if let Some((version, as_of)) = proven {
            self.proven(version, as_of, Proof::Confirmation).await;
        }
        self.open.confirmations.judge(shown, Instant::now())
    }

    pub(super) fn shown(&self) -> Shown {
        Shown { version: self.protocol.highest, objects: self.protocol.objects }
    }

    /// The objects that the stream shows.
    pub(super) fn shown_part(&self) -> Collection {
        let all = self.collection.clone();
        match &self.narrowing {
            Some(narrowing) if narrowing.again.is_some() && self.is_following() => all.named(&narrowing.name),
            _ => all,
        }
    }

    /// True if the stream shows changes, not the objects of a list.
    fn is_following(&self) -> bool {
        self.open.initial.is_none()
    }

    async fn take(&mut self, line: anyhow::Result<Line<O>>) -> Result<(), Failure> {
        match (line, &mut self.open.initial) {
            (Ok(Line::Error(status)), _) => return Err(self.request().refused(&status)),
            (Err(error), _) => {
                self.protocol.count(None);
                self.skipped(O::KIND, error).await;
            }
            (Ok(Line::Object(Kind::Deleted, entry)), Some(initial)) => drop(initial.remove(&entry.name)),
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

    async fn change(&mut self, kind: Kind, entry: Entry<O>) {
        // A list beside the stream may lack the change.
        for beside in &mut self.open.beside {
            beside.changed.insert(entry.name.clone(), entry.version);
        }
        let version = entry.version;
        let (more, change): (_, fn(O) -> _) = match kind {
            Kind::Deleted => (-1, Change::Deleted),
            kind => (isize::from(kind == Kind::Added), Change::Applied),
        };
        let object = self.object(entry).await;
        self.protocol.count(Some(more));
        self.protocol.advance(version);
        if let Some(object) = object {
            self.send_fact(version, (self.fact)(change(object))).await;
        }
    }
}
