//! Reads one stream of changes. [`beside`](super::beside) has the requests beside it.

use super::changes::request_changes;
use super::freshness_check::CheckStep;
use super::line::{Line, LineType, ReceivedObject};
use super::lines::Lines;
use super::list::{Listed, SILENCE};
use super::message::WatchEvent;
use super::open::Open;
use super::orders::order_list;
use super::request_error::RequestError;
use super::session::Session;
use super::step::End;
use epguard_core::facts::{Change, Object};
use epguard_core::freshness::Proof;
use futures::{StreamExt, io::AsyncBufRead};
use std::{mem::take, ops::Range, pin::pin, time::Duration};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Longest time until a stream begins: the server may keep the request in a queue for 15 s. A later
/// one is asked for again, from where the last one ended: a server that has yet to fill its cache
/// sends nothing before.
const BEGUN_WITHIN: Duration = Duration::from_secs(30);
/// Seconds after which the server ends a stream; watches draw theirs at random, apart from each
/// other.
pub(super) const LIFETIME: Range<u32> = 270..330;
impl<O: Object> Session<O> {
    /// Reads a stream of the changes after a version to its end; without one, all existing objects
    /// come first.
    pub(super) async fn stream(&mut self, after: Option<u64>) -> Result<End, RequestError> {
        self.open = Open::new((self.clock)(), after.is_none());
        let shown = self.shown_part();
        let lifetime = fastrand::u32(LIFETIME);
        let request = request_changes(&self.client, &shown, after, lifetime);
        let stream = timeout(BEGUN_WITHIN, request).await??;
        if self.is_following() {
            self.send_up().await;
        }
        let end = self.follow(&mut pin!(stream)).await;
        self.open.requests.clear();
        if self.open.checks.stream_lacks(self.protocol.shown) {
            self.send(WatchEvent::Behind).await;
        }
        // The next stream goes on with what has not come.
        for (selection, within) in take(&mut self.open.ordered) {
            order_list(&self.orders, selection, within);
        }
        end
    }

    /// Reads an open stream to its end, and handles the requests beside it.
    async fn follow(
        &mut self,
        stream: &mut (impl AsyncBufRead + Unpin),
    ) -> Result<End, RequestError> {
        let mut lines = Lines::default();
        let mut line = Vec::new();
        let mut last_line = Instant::now();
        if self.cut_short && self.is_following() {
            // A restored server that is older than this watch sends nothing until it reaches our
            // version, and omits what happened before. A list shows it at once.
            self.check_freshness(SILENCE);
        }
        while !self.messages.is_closed() {
            let following = self.is_following();
            let wake = self.prove_freshness().await?;
            // Biased: what has come is read before an answer is evaluated. Lines that gather come
            // after it, which only delays a proof.
            tokio::select! {
                biased;
                read = timeout_at(last_line + SILENCE, lines.next_line(stream, &mut line, following)) => {
                    let Ok(read) = read else {
                        return Err(RequestError::Silent(SILENCE));
                    };
                    if !read? {
                        break;
                    }
                    last_line = Instant::now();
                    if lines.was_empty {
                        lines.was_empty = false;
                        self.behind = None;
                    }
                    self.receive_line(Line::parse(&line)).await?;
                    line.clear();
                    if self.again.is_none() && self.is_following() {
                        if self.narrows() {
                            return Ok(End::Listed);
                        }
                        self.send_up().await;
                    }
                }
                // `select!` makes each future, also where its condition is false: any moment will
                // do.
                () = sleep_until(self.again.unwrap_or(last_line)), if self.again.is_some() => return Ok(End::Relist),
                Ok(()) = self.ordered.changed(), if following => self.begin_orders(),
                Some(finished) = self.open.requests.next() => {
                    if let Some(end) = self.finish_request(finished).await? {
                        return Ok(end);
                    }
                }
                () = sleep_until(wake.unwrap_or(last_line)), if wake.is_some() => {}
            }
        }
        Ok(End::Closed)
    }

    /// Sends what is proven by now, and begins to prove the rest. Returns when to look again.
    async fn prove_freshness(&mut self) -> Result<Option<Instant>, RequestError> {
        let shown = self.protocol.shown;
        let proven = self.open.checks.take_proven(shown);
        self.send_parts().await;
        if let Some((version, as_of)) = proven {
            self.send_proven(version, as_of, Proof::FreshnessCheck)
                .await;
        }
        loop {
            match self.open.checks.decide(shown, Instant::now()) {
                CheckStep::Wait(wake) => return Ok(wake),
                CheckStep::Probe => self.send_probe(),
                CheckStep::Late => self.send(WatchEvent::Behind).await,
                CheckStep::Behind(elsewhere) => {
                    return Err(RequestError::StoppedBehind {
                        stream: shown.version,
                        elsewhere,
                    });
                }
            }
        }
    }

    /// Takes in one line. Errors: the server ends the stream with it.
    async fn receive_line(&mut self, line: anyhow::Result<Line<O>>) -> Result<(), RequestError> {
        match line {
            Ok(Line::Error(status)) => return Err(RequestError::Refused(status)),
            Ok(Line::Object(line_type, entry)) => self.receive_object(line_type, entry).await,
            Ok(Line::Bookmark { version, complete }) => {
                self.receive_bookmark(version, complete).await;
            }
            Err(error) => {
                self.protocol.count_object(None);
                self.send_skipped(&format!("{}: {error:#}", O::KIND)).await;
            }
        }
        Ok(())
    }

    async fn receive_object(&mut self, line_type: LineType, entry: ReceivedObject<O>) {
        let Some(initial) = &mut self.open.initial else {
            self.send_change(line_type, entry).await;
            return;
        };
        if line_type == LineType::Deleted {
            initial.remove(&entry.name);
        } else {
            initial.insert(entry.name.clone(), entry);
        }
    }

    async fn receive_bookmark(&mut self, version: u64, completes_list: bool) {
        if self.is_following() {
            self.protocol.advance(version);
            self.send(WatchEvent::Progress(version)).await;
        } else if completes_list {
            let initial = take(&mut self.open.initial).unwrap_or_default();
            let listed = Listed {
                version,
                sent: self.open.sent,
                entries: initial.into_values().collect(),
                whole: true,
            };
            self.reset(listed).await;
        }
    }

    async fn send_change(&mut self, line_type: LineType, mut entry: ReceivedObject<O>) {
        // A list beside the stream may lack the change.
        for narrow in &mut self.open.narrow {
            narrow.changed.insert(entry.name.clone(), entry.version);
        }
        let version = entry.version;
        let is_deleted = line_type == LineType::Deleted;
        let more = match line_type {
            LineType::Added => 1,
            LineType::Deleted => -1,
            LineType::Modified | LineType::Bookmark | LineType::Error => 0,
        };
        let bare = entry.bare.take();
        let object = self.read_object(entry).await;
        self.protocol.count_object(Some(more));
        self.protocol.advance(version);
        let change = match object {
            Some(object) if is_deleted => Some(Change::Deleted(object)),
            Some(object) => Some(Change::Applied(object)),
            None if is_deleted => bare.map(Change::Gone),
            None => None,
        };
        if let Some(change) = change {
            self.send_fact(version, (self.fact)(change)).await;
        }
    }
}
