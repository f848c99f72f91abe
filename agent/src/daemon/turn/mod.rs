//! A turn of the loop, without the maps: the agent takes it, and so does the model of a cluster.
//!
//! A turn first applies what was received, so that what it contradicts ends with this turn's write,
//! whatever else waits. Then it goes on with a list, or judges Services that wait. Each has its
//! share of every turn.

pub mod message_queue;

use crate::daemon::lease::Lease;
use crate::daemon::spans;
use crate::shared::clock::Clocks;
use crate::watch::{Clock, Message, WatchEvent, Watches};
use epguard_core::facts::{Change, Fact, ModePolicy, ObjectName, Watched};
use epguard_core::freshness::Due;
use epguard_core::state::State;
use message_queue::MessageQueue;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Span;

/// After this time, the rest waits for the next turn: what ends a denial is written after one, and
/// the lease, netlink and probes come before. Something of each kind is done in every turn.
pub const TURN: Duration = Duration::from_millis(3);

/// Objects and endpoints of a list that are applied at once: a few milliseconds' worth.
pub const PART: usize = 512;

/// A fact that waits for longer ends the lease: it may contradict a denial.
pub const UNREAD: Duration = Duration::from_secs(1);

/// What a turn changes.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The facts, and what follows from them.
    pub state: &'a mut State,
    /// The lease, and the age of the view.
    pub lease: &'a mut Lease,
    /// The messages that are not applied yet.
    pub waiting: &'a mut MessageQueue,
    /// Where lists are requested.
    pub watches: &'a Watches,
    /// `CLOCK_BOOTTIME`.
    pub clock: Clock,
    /// How much of a list is applied at once: [`PART`].
    pub part: usize,
}

/// Measures and reports a turn.
pub trait Observer {
    /// How long the turn has taken.
    fn spent(&self) -> Duration;

    /// A message is applied next.
    fn receives(&mut self, message: &Message);

    /// A message was applied.
    fn applied(&mut self, state: &State);

    /// A part of a list was applied, or a piece was judged.
    fn stepped(&mut self, state: &State);

    /// The API has shown a dead pod alive: everything is listed anew.
    fn revived(&mut self, pod: &ObjectName);

    /// The mode policy has changed, which is no fact of the state.
    fn takes_policy(&mut self, change: Change<ModePolicy>);
}

impl Turn<'_> {
    /// Applies messages, and goes on with what waits. What the state then holds is to be written,
    /// and [`Turn::renew`] is to follow.
    pub fn run(&mut self, observer: &mut impl Observer) {
        while let Some(message) = self
            .waiting
            .take_next(|watch| self.state.is_applying(watch))
        {
            let span = match &message.event {
                WatchEvent::Fact { fact, .. } => spans::of_fact(fact),
                _ => Span::none(),
            };
            let _in_span = span.entered();
            observer.receives(&message);
            self.apply(message, observer);
            observer.applied(self.state);
            if observer.spent() >= TURN {
                break;
            }
        }
        loop {
            let goes_on = self.state.run_step((self.clock)(), self.part);
            if let Some(service) = self.state.judged() {
                tracing::debug!(%service, "judged");
            }
            observer.stepped(self.state);
            if !goes_on || observer.spent() >= TURN {
                break;
            }
        }
    }

    /// Renews the lease if the view is fresh enough, and returns the deadline to write. Requires
    /// that what was applied so far is in the maps; a fact that has waited for long ends the lease.
    /// While there are denials, asks for freshness checks of the watches that are due.
    pub fn renew(&mut self, clocks: Clocks, denies: bool) -> Option<Duration> {
        let half_applied = self
            .state
            .half_applied_since()
            .map(|since| clocks.boot.saturating_sub(since));
        let is_unread = self.waiting.longest().max(half_applied) > Some(UNREAD);
        self.lease.check(clocks.boot, denies);
        let renewed = self.lease.renew(clocks, self.state.is_synced(), is_unread);
        if denies {
            for Due { watch, within } in self.lease.view.due(clocks.boot) {
                self.watches.check_freshness(watch, within);
            }
        }
        while let Some((node, within)) = self.state.take_node_check(clocks.boot) {
            self.watches.look_at_node(node, within);
        }
        renewed
    }

    fn apply(&mut self, Message { watch, event }: Message, observer: &mut impl Observer) {
        match event {
            WatchEvent::Fact {
                received,
                sent,
                rv,
                fact,
            } => {
                self.state.see_resource_version(rv);
                if sent.is_some() {
                    self.state.set_listed(watch);
                }
                match *fact {
                    Fact::ModePolicy(change) => observer.takes_policy(change),
                    fact => self.apply_fact(received, sent, fact, observer),
                }
            }
            WatchEvent::Proven { as_of, by } => {
                self.lease.view.proven(watch, as_of, by);
            }
            WatchEvent::NodeSeen(seen) => {
                self.state.begin_fact((self.clock)(), Fact::NodeSeen(seen));
            }
            // It lacks changes that the API server has shown elsewhere, such as a new owner of a
            // denied IP.
            WatchEvent::Behind => self.lease.view.void(Some(watch), (self.clock)()),
            WatchEvent::Rewound(_) => self.start_over(watch),
            WatchEvent::Up => self.lease.view.connected(watch, true),
            WatchEvent::Down { .. } => self.lease.view.connected(watch, false),
            WatchEvent::Progress(rv) => self.state.see_resource_version(rv),
            WatchEvent::CheckFailed(_) | WatchEvent::Skipped(_) => {}
        }
    }

    /// Applies a fact of the state; `sent`: when it was requested, if it is a list of everything.
    fn apply_fact(
        &mut self,
        received: Instant,
        sent: Option<Duration>,
        fact: Fact,
        observer: &mut impl Observer,
    ) {
        let received = (self.clock)().saturating_sub(received.elapsed());
        self.state
            .begin_list(sent.unwrap_or(received), received, fact);
        tracing::debug!("applied");
        self.relist_if_revived(observer);
    }

    /// Starts over, because nothing known holds any more, and asks the other watches to list again.
    ///
    /// Each of them may see the same before its list, and that starts nothing over again. A watch
    /// that has listed since sees something new, and may be the only one: the API may have passed by
    /// now the resourceVersions that the others have shown.
    fn start_over(&mut self, noticed_by: Watched) {
        let now = (self.clock)();
        self.lease.view.void(None, now);
        self.lease.end_inherited();
        if self.state.has_listed(noticed_by) {
            self.state.start_over(now);
            self.watches.list_all(Some(noticed_by), self.state.spread());
        }
    }

    /// Lists everything anew if the API has shown a dead pod as alive.
    fn relist_if_revived(&mut self, observer: &mut impl Observer) {
        if let Some(pod) = self.state.take_revived() {
            observer.revived(&pod);
            self.lease.view.void(None, (self.clock)());
            self.watches.list_all(None, self.state.spread());
        }
    }
}

#[cfg(test)]
mod tests;
