//! Messages of the watches. Nothing here takes long: a list is applied in parts, and messages behind it wait.

use super::{Agent, now};
use crate::daemon::executable;
use crate::watch::{Event, Message};
use anyhow::Result;
use epguard_core::facts::{Fact, Watched};
use std::time::{Duration, Instant};

/// After this time, the rest waits for the next turn: the lease, netlink and probes come before.
const TURN: Duration = Duration::from_millis(3);

/// Objects and endpoints of a list that are applied at once: about as long.
const PART: usize = 512;

impl Agent {
    /// Applies messages of the watches, and writes the maps once for all of them. [`Agent::run_turn`] applies those that
    /// are left.
    pub fn on_messages(&mut self, messages: Vec<Message>) -> Result<()> {
        self.waiting.extend(messages);
        self.run_turn()
    }

    /// True if something waits for [`Agent::run_turn`].
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        self.has_unwritten() || self.history.lacks(&self.state)
    }

    fn has_unwritten(&self) -> bool {
        !self.waiting.is_empty()
            || self.state.has_backlog()
            || self.writer.has_backlog() && self.state.is_synced()
    }

    /// Applies messages, and a part of a list, for the length of a turn.
    pub fn run_turn(&mut self) -> Result<()> {
        let began = Instant::now();
        let was_synced = self.state.is_synced();
        let mut changed = self.has_unwritten();
        while began.elapsed() < TURN && self.history.lacks(&self.state) {
            self.record_history();
        }
        while began.elapsed() < TURN {
            let goes_on = self.state.run_step(now(), PART);
            if self.state.is_unfinished() {
                continue;
            }
            match self.waiting.pop_front() {
                Some(message) => {
                    changed |= matches!(message.event, Event::Fact { .. });
                    self.apply(message);
                }
                None if goes_on => {}
                None => break,
            }
        }
        if changed {
            self.write()?;
        }
        if self.state.is_synced() && !was_synced {
            self.timings.synced();
            executable::return_pages();
            tracing::info!("synced");
        }
        self.follow_fleet()?;
        self.keep_view_fresh()
    }

    fn apply(&mut self, Message { watch, event }: Message) {
        match event {
            Event::Fact { received, rv, fact } => {
                self.timings.received(received, &fact);
                match *fact {
                    Fact::ModePolicy(change) => self.node_modes.apply(change),
                    fact => {
                        self.state.begin_fact(now(), fact);
                        self.relist_if_revived();
                    }
                }
                self.watch(watch).rv = rv;
            }
            Event::Progress(rv) => self.watch(watch).rv = rv,
            Event::Proven { as_of, by } => {
                self.lease.view.proven(watch, as_of, by);
                let watch = self.watch(watch);
                watch.error = watch.error.take().filter(|_| !watch.up);
            }
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
}
