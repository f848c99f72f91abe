//! The body of the agent's loop: what each kind of event changes. No function here waits.

mod interfaces;
mod messages;
mod overview;
mod slow_steps;
#[cfg(test)]
mod tests;

use crate::daemon::args::AgentArgs;
use crate::daemon::breaker::BreakerAlarms;
use crate::daemon::demotion::Demotions;
use crate::daemon::lease::Lease;
use crate::daemon::mode_policy::NodeModePolicy;
use crate::daemon::node_thread::{NodeEvent, NodeThread};
use crate::daemon::report::denial_log::Report;
use crate::daemon::report::metrics::Timings;
use crate::daemon::spans;
use crate::daemon::turn::message_queue::MessageQueue;
use crate::daemon::turn::{PART, Turn};
use crate::kernel::maps::Writer;
use crate::node::netlink::NetworkChange;
use crate::shared::clock::{Clocks, boot as now, nanoseconds};
use crate::shared::pace::Pace;
use crate::shared::status::{Status, Watch};
use crate::watch::Watches;
use anyhow::Result;
use epguard_common::{Addr, Event, Mode, Outcome};
use epguard_core::facts::{Cidr, Fact, Presence, Protocol, Watched};
use epguard_core::freshness::Freshness;
use epguard_core::history::History;
use epguard_core::state::{Endpoint, State};
use interfaces::Interfaces;
use slow_steps::SlowSteps;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync;

/// New owners that are written at once: two milliseconds' worth.
const OWNERS: usize = 512;

/// What an agent is made of.
pub struct AgentParts {
    /// The facts, and what follows from them; at first what was restored.
    pub state: State,
    /// The maps.
    pub writer: Writer,
    /// What is reported of denied packets.
    pub report: Report,
    /// The Services that are only observed because a denial was wrong.
    pub demotions: Demotions,
    /// The thread that hooks interfaces.
    pub node: NodeThread,
    /// Where lists are requested.
    pub api: Watches,
    /// The limit of requests to the API.
    pub pace: Pace,
    /// The modes in force.
    pub mode_policy: NodeModePolicy,
}

/// The state of the agent's one loop.
pub struct Agent {
    state: State,
    writer: Writer,
    node: NodeThread,
    interfaces: Interfaces,
    report: Report,
    lease: Lease,
    api: Watches,
    pace: Pace,
    breaker: BreakerAlarms,
    demotions: Demotions,
    mode_policy: NodeModePolicy,
    /// The resourceVersion up to which the maps have what the mode policy sets.
    policy_version: Option<u64>,
    watches: BTreeMap<Watched, Watch>,
    timings: Timings,
    /// The ranges of which netlink has to report the parts that the node has routes to.
    ranges_in_question: sync::watch::Sender<Vec<Cidr>>,
    refused: usize,
    /// The last figures, and until when they are given again.
    recent: Option<(Duration, Status)>,
    history: History,
    waiting: MessageQueue,
    slow_steps: SlowSteps,
}

impl Agent {
    /// An agent without any facts, so it denies nothing.
    pub fn new(parts: AgentParts, args: &AgentArgs) -> Self {
        let inherited = Duration::from_nanos(parts.writer.view.written().lease_deadline_ns);
        let view = Freshness::new(&Watched::ALWAYS, args.max_view_age, fastrand::f64);
        Self {
            state: parts.state,
            writer: parts.writer,
            node: parts.node,
            interfaces: Interfaces::new(args.selection()),
            report: parts.report,
            lease: Lease::new(view, args.lease, Clocks::now()).inheriting(inherited),
            api: parts.api,
            pace: parts.pace,
            breaker: BreakerAlarms::default(),
            demotions: parts.demotions,
            mode_policy: parts.mode_policy,
            policy_version: None,
            watches: Watched::ALWAYS
                .into_iter()
                .map(|id| (id, Watch::default()))
                .collect(),
            timings: Timings::start(),
            ranges_in_question: sync::watch::Sender::new(Vec::new()),
            refused: 0,
            recent: None,
            history: History::default(),
            waiting: MessageQueue::default(),
            slow_steps: SlowSteps::default(),
        }
    }

    /// The node's mode, unless `epguard mode` has set another one since.
    pub const fn mode(&self) -> Mode {
        self.mode_policy.in_force().mode
    }

    /// Does the periodic work.
    pub fn on_tick(&mut self) -> Result<()> {
        let _tick = spans::of_tick().entered();
        self.apply_lifts()?;
        self.state.begin_tick(now());
        self.writer.sweep_flows()?;
        self.breaker
            .tick(now(), &mut self.state, &self.api, &mut self.report);
        self.demotions
            .tick(now(), &mut self.state, &mut self.writer, &self.report.names)?;
        self.report.tick(now(), &self.state, &mut self.writer)?;
        if self.state.is_synced() {
            // Restored denials changed no map, so their names have not been recorded yet.
            self.report.names.keep(&self.state);
        }
        self.node.tick();
        self.interfaces.write(&self.node.seen, &mut self.writer);
        self.run_turn()?;
        let denies = self.denies();
        self.lease.log(now(), denies);
        Ok(())
    }

    /// Applies an event of netlink. Interfaces are hooked by the node's thread.
    pub fn on_node_event(&mut self, event: NodeEvent) -> Result<()> {
        self.interfaces.apply_event(&event);
        self.interfaces.write(&self.node.seen, &mut self.writer);
        let fact = match event.change {
            NetworkChange::Addresses(addresses) => Fact::LocalAddresses(addresses),
            NetworkChange::Routes(Some(routes)) => Fact::Presence(Presence::Routes(routes)),
            NetworkChange::Routes(None) => Fact::Presence(Presence::Unknown),
            NetworkChange::Announced(routes) => Fact::Presence(Presence::Announced(routes)),
            NetworkChange::Appeared(_)
            | NetworkChange::Gone { .. }
            | NetworkChange::Defaults(_)
            | NetworkChange::Settled
            | NetworkChange::Lost
            | NetworkChange::Recovered => return self.judge_by_socket(),
        };
        let _fact = spans::of_fact(&fact).entered();
        self.state.begin_fact(event.received, fact);
        self.run_turn()
    }

    /// Writes what the node's thread has found. Errors: enforcement is asked for, and nothing can
    /// be enforced; a map cannot be written.
    pub fn on_snapshot(&mut self) -> Result<()> {
        let was_settled = self.node.seen.settled;
        self.node.look();
        let translators = &self.node.seen.translators;
        self.writer.view.change(|view| {
            view.entry_at = translators.entry_at.unwrap_or(view.entry_at);
            view.cilium = translators.cilium.into();
        })?;
        self.interfaces.write(&self.node.seen, &mut self.writer);
        // What its translation makes doubtful leaves SERVICES before the programs judge by sockets.
        let is_there = !self.node.seen.socket_lb.programs.is_empty();
        self.state.begin_fact(now(), Fact::SocketLb(is_there));
        self.write()?;
        self.judge_by_socket()?;
        if was_settled {
            Ok(())
        } else {
            self.insist_on_hooks()
        }
    }

    /// Lets the programs judge packets by their sockets, as far as all of these meet a hook. What
    /// an earlier process has written stands until the thread has looked: else all that it knew of
    /// sockets would be void, and calls that it denied would be refused where they should wait.
    fn judge_by_socket(&mut self) -> Result<()> {
        let seen = &self.node.seen;
        if seen.ticks == 0 {
            return Ok(());
        }
        let is_known = seen.settled || self.interfaces.are_unknown();
        let everywhere =
            is_known.then(|| seen.hooks_everywhere && self.interfaces.are_all_in(seen));
        self.writer
            .view
            .judge_by_socket(seen.socket_lb.in_force, everywhere)
    }

    /// Whether replies of flows that are redirected from now on meet a hook.
    fn translates_replies(&self) -> bool {
        self.node.seen.translates_replies && self.interfaces.are_all_in(&self.node.seen)
    }

    /// Takes in reports of packets that were denied, or that lift a denial, as many as the node's
    /// budget allows.
    pub fn on_events(&mut self, mut events: Vec<Event>) -> Result<()> {
        self.report.budget.admit(now(), &mut events);
        let mut spoke = false;
        for event in &events {
            if event.outcome == Outcome::Lifted as u32 {
                spoke = true;
                self.apply_lift(event.src, Duration::from_nanos(event.at_ns));
                continue;
            }
            self.report.reported(now(), &self.state, event);
            self.state.add_denied_packet(event);
            if let Some(protocol) = Protocol::from_repr(event.protocol) {
                let socket = Endpoint {
                    ip: event.dst,
                    port: event.dst_port,
                    protocol,
                };
                self.state.hit(now(), event.service, &socket);
            }
        }
        if spoke { self.write() } else { Ok(()) }
    }

    /// A receiver of the ranges to whose parts the agent needs the node's routes.
    pub fn ranges_in_question(&self) -> sync::watch::Receiver<Vec<Cidr>> {
        self.ranges_in_question.subscribe()
    }

    /// Applies every IP that the programs saw in use, whether or not the ring buffer had room to
    /// report it.
    pub(super) fn apply_lifts(&mut self) -> Result<()> {
        for lift in self.writer.take_lifts()? {
            self.report.lifted(&self.state, &lift);
            self.apply_lift(lift.ip, lift.at);
        }
        Ok(())
    }

    /// Records that a packet from the IP was seen.
    pub(super) fn apply_lift(&mut self, ip: Addr, at: Duration) {
        let spoke = Presence::Spoke(ip, at);
        self.state.begin_fact(now(), Fact::Presence(spoke));
    }

    /// Ends the node's thread, once it has carried out what it is at.
    pub fn end(self) {
        self.node.end();
    }

    /// Writes the maps.
    fn write(&mut self) -> Result<()> {
        self.install()?;
        if !self.state.is_half_applied() {
            self.timings.written();
        }
        Ok(())
    }

    /// Writes the maps. Before the sync denials that an earlier process proved stay under its
    /// lease, or a restart would let packets through; only what a fact contradicts is taken out.
    fn install(&mut self) -> Result<()> {
        let ranges = self.state.ranges_in_question();
        self.ranges_in_question.send_if_modified(|asked| {
            let differ = asked != ranges;
            if differ {
                *asked = ranges.to_vec();
            }
            differ
        });
        self.writer.translate_replies(self.translates_replies());
        self.node
            .redirect(self.state.redirects() || self.writer.redirects());
        if !self.state.is_synced() {
            if let Some((kept, changes)) = self.state.take_contradicted() {
                self.writer.install_changes(kept, changes)?;
            }
            return Ok(());
        }
        if self.writer.replaces_terminated(self.state.tables()) {
            self.apply_lifts()?;
        }
        let keys = self.state.take_changes();
        self.report.names.add(&self.state, &keys);
        self.writer.install_changes(self.state.tables(), keys)?;
        for gap in self.state.take_reuse_gaps() {
            self.timings.figures.reuse_gap.record(gap);
        }
        let (owners, changed) = self.state.take_owners(OWNERS);
        let left_out = self.writer.install_owners(owners, &changed, OWNERS);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "OWNERS is full: dumps and reports miss these IPs, and no flow is redirected to them"
            );
        }
        let by_namespace = &self.state.tables().refused;
        let refused = by_namespace.values().sum::<usize>() + self.writer.left_out();
        if refused > self.refused {
            tracing::error!(
                refused,
                ?by_namespace,
                "a map, or a namespace's share of it, is full: these denials are not carried out"
            );
        }
        self.refused = refused;
        self.report.conflicts(&self.state, changed.iter());
        Ok(())
    }

    /// Renews the lease, or ends it. Requires that what was applied so far is in the maps.
    fn keep_view_fresh(&mut self) -> Result<()> {
        let denies = self.denies();
        let mut turn = Turn {
            state: &mut self.state,
            lease: &mut self.lease,
            waiting: &mut self.waiting,
            watches: &self.api,
            clock: now,
            part: PART,
        };
        let renewed = turn.renew(Clocks::now(), denies);
        if let Some(deadline) = renewed {
            self.writer.view.renew_lease(nanoseconds(deadline))?;
        }
        Ok(())
    }
}
