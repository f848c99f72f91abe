//! Messages of the watches, and the state of each watch.
//!
//! A turn of the loop first applies what was received, so that what it contradicts ends with this turn's write, whatever else
//! waits. Then it goes on with a list, or judges Services that wait, and last writes history. Each has its share of every turn.

use super::slow_steps::describe;
use super::{Agent, now};
use crate::daemon::memory;
use crate::shared::status::Watch;
use crate::watch::{Event, Message};
use anyhow::Result;
use epguard_common::{Mode, Reason};
use epguard_core::facts::{Fact, Watched, named};
use std::time::{Duration, Instant};

/// After this time, further messages wait for the next turn.
const MESSAGES: Duration = Duration::from_millis(3);

/// After this time, the rest waits for the next turn: the lease, netlink and probes come before.
const TURN: Duration = Duration::from_millis(5);

/// Objects and endpoints of a list that are applied at once: a few milliseconds' worth.
const PART: usize = 512;

impl Agent {
    /// Takes in messages of the watches, for the next turn.
    pub fn receive(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.waiting.push(message);
        }
    }

    /// How many messages wait to be applied.
    pub const fn waiting(&self) -> usize {
        self.waiting.count()
    }

    /// True if something waits for [`Agent::run_turn`].
    pub fn has_backlog(&self) -> bool {
        self.waiting.count() > 0
            || self.state.has_backlog()
            || self.writer.has_backlog() && self.state.is_synced()
            || self.history.lacks(&self.state)
    }

    /// Applies messages, goes on with what waits, and writes the maps once for all of it.
    pub fn run_turn(&mut self) -> Result<()> {
        let began = Instant::now();
        let was_synced = self.state.is_synced();
        while let Some(message) = self.waiting.take_next(|watch| self.state.is_applying(watch)) {
            self.apply(message);
            if began.elapsed() >= MESSAGES {
                break;
            }
        }
        while self.run_step() && began.elapsed() < TURN {}
        self.write()?;
        if self.state.is_synced() && !was_synced {
            self.timings.synced();
            memory::return_pages();
            tracing::info!("synced");
        }
        self.follow_fleet()?;
        self.keep_view_fresh()?;
        self.record_history();
        Ok(())
    }

    /// Applies a part of a list, or judges a piece. False if nothing is left.
    fn run_step(&mut self) -> bool {
        let began = Instant::now();
        let goes_on = self.state.run_step(now(), PART);
        let state = &self.state;
        self.slow_steps.note(began, || match state.judged() {
            Some(service) => format!("Service {}, judged", named(service)),
            None => "a part of a list".to_owned(),
        });
        goes_on
    }

    /// Applies a fact, and logs what it was about if that took long.
    fn begin(&mut self, received: Instant, sent: Option<Duration>, fact: Fact) {
        let (began, object) = (Instant::now(), describe(&fact));
        let received = now().saturating_sub(received.elapsed());
        self.state.begin_list(sent.unwrap_or(received), received, fact);
        self.slow_steps.note(began, || object);
        self.relist_if_revived();
    }

    fn apply(&mut self, Message { watch, event }: Message) {
        match event {
            Event::Fact { received, sent, rv, fact } => {
                self.timings.received(received, &fact);
                match *fact {
                    Fact::ModePolicy(change) => self.node_modes.apply(change),
                    fact => self.begin(received, sent, fact),
                }
                self.watch(watch).rv = rv;
            }
            Event::Progress(rv) => self.watch(watch).rv = rv,
            Event::Proven { as_of, by } => {
                self.lease.view.proven(watch, as_of, by);
                let watch = self.watch(watch);
                watch.error = watch.error.take().filter(|_| !watch.up);
            }
            Event::NodeSeen(seen) => self.state.begin_fact(now(), Fact::NodeSeen(seen)),
            Event::Behind => self.behind(watch),
            Event::Unconfirmed(error) => {
                tracing::debug!(%watch, error, "not confirmed");
                self.watch(watch).error = Some(error);
            }
            Event::Rewound(error) => self.start_over(watch, &error),
            Event::Up => {
                tracing::info!(%watch, "watching");
                self.connected(watch, None);
            }
            Event::Down { refused, error } => {
                if refused && watch == Watched::ModePolicy {
                    self.node_modes.refuse();
                }
                tracing::warn!(%watch, error, "watch lost; denials end when the view is too old");
                self.connected(watch, Some(error));
            }
            Event::Skipped(what) => {
                tracing::warn!(%watch, %what, "object skipped");
                self.watch(watch).skipped += 1;
            }
        }
    }

    /// Applies the mode policy if it changed. Does nothing before the sync: only the first list shows if the node is
    /// a canary.
    fn follow_fleet(&mut self) -> Result<()> {
        if !self.state.is_synced() {
            return Ok(());
        }
        let own = self.state.cluster().nodes.get(self.state.node());
        if let Some(modes) = self.node_modes.take_change(own.is_some_and(|node| node.canary)) {
            self.writer.config.configure(modes.mode, modes.reasons, modes.source.is_config_map())?;
            let source = modes.source.as_str();
            let reasons = self.writer.config.reasons().into_iter();
            let reasons: Vec<String> = reasons.map(|(reason, mode)| format!("{reason}={mode}")).collect();
            let reasons = reasons.join(",");
            tracing::info!(mode = modes.mode.as_str(), reasons, source, "mode set");
            self.insist_on_hooks()?;
        }
        Ok(())
    }

    /// Errors: the mode in force is `enforce`, and nothing could be enforced.
    pub(super) fn insist_on_hooks(&self) -> Result<()> {
        let seen = &self.node.seen;
        if !seen.settled || self.node_modes.in_force().mode != Mode::Enforce {
            return Ok(());
        }
        seen.require_hook()?;
        // `terminated` needs no record.
        if self.writer.config.reasons().get(&Reason::Terminated) != Some(&Mode::Enforce) {
            seen.require_record()?;
        }
        Ok(())
    }

    fn connected(&mut self, id: Watched, error: Option<String>) {
        let up = error.is_none();
        self.lease.view.connected(id, up);
        let watch = self.watch(id);
        watch.restarts += u64::from(watch.up && !up);
        (watch.up, watch.error) = (up, error);
    }

    /// The watch lacks changes that the API server has shown elsewhere, such as a new owner of a denied IP.
    fn behind(&mut self, id: Watched) {
        tracing::warn!(watch = %id, "the watch lacks changes that the API server has shown; nothing is denied until it has caught up");
        self.lease.view.void(Some(id), now());
    }

    /// Starts over, because nothing known holds any more. Asks the other watches to list again: only once, and not
    /// before they have all listed.
    fn start_over(&mut self, noticed_by: Watched, error: &str) {
        tracing::error!(watch = %noticed_by, error, "nothing is denied until everything is listed again");
        self.lease.view.void(None, now());
        if self.state.is_listed() {
            self.state.start_over(now());
            for id in self.watches.keys().filter(|id| **id != noticed_by) {
                self.api.list(*id, None, self.state.spread());
            }
        }
    }

    /// Lists everything anew if the API has shown a dead pod as alive.
    fn relist_if_revived(&mut self) {
        let Some(pod) = self.state.take_revived() else {
            return;
        };
        tracing::error!(
            pod = named(&pod),
            "the API shows a dead pod alive, as after a restore of etcd; nothing is denied until everything is listed again"
        );
        self.lease.view.void(None, now());
        for id in self.watches.keys() {
            self.api.list(*id, None, self.state.spread());
        }
    }

    /// True if the agent has denials, so that it needs the lease.
    pub(super) fn denies(&self) -> bool {
        let tables = self.state.tables();
        let mut orphan_ip = tables.terminated.values();
        !tables.denied.is_empty()
            || self.writer.has_redirected_flows()
            || orphan_ip.any(|orphan_ip| orphan_ip.lifted.is_none())
    }

    fn watch(&mut self, id: Watched) -> &mut Watch {
        self.watches.entry(id).or_default()
    }
}
