//! The body of the agent's loop: what each kind of event changes. No function here waits.

mod messages;
mod overview;
#[cfg(test)]
mod tests;

use crate::daemon::args::AgentArgs;
use crate::daemon::attachments::Attachments;
use crate::daemon::confirmation::Confirmation;
use crate::daemon::demotion::Demotions;
use crate::daemon::lease::Lease;
use crate::daemon::mode_policy::NodeModes;
use crate::daemon::report::denial_log::Report;
use crate::daemon::report::metrics::Timings;
use crate::daemon::translators::Translators;
use crate::kernel::datapath::Datapath;
use crate::kernel::maps::Writer;
use crate::node::netlink::Event as LinkEvent;
use crate::shared::clock::{Clocks, boot as now, nanoseconds};
use crate::shared::pace::Pace;
use crate::shared::status::{Status, Watch};
use crate::watch::{Message, Watches};
use anyhow::Result;
use epguard_common::{Addr, Event, Outcome};
use epguard_core::facts::{Fact, Presence, Protocol, Watched};
use epguard_core::freshness::{Due, Freshness};
use epguard_core::history::History;
use epguard_core::state::{Endpoint, State};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync;

/// New owners that are written at once: two milliseconds' worth.
const OWNERS: usize = 512;

/// The state of the agent's one loop.
pub struct Agent {
    state: State,
    writer: Writer,
    attachments: Attachments,
    report: Report,
    lease: Lease,
    api: Watches,
    pace: Pace,
    confirmation: Confirmation,
    demotions: Demotions,
    node_modes: NodeModes,
    translators: Translators,
    watches: BTreeMap<Watched, Watch>,
    timings: Timings,
    /// True while netlink has to report which addresses the node leads to.
    ask_for_presence: sync::watch::Sender<bool>,
    refused: usize,
    /// The last figures, and until when they are given again.
    recent: Option<(Duration, Status)>,
    /// True once every interface that existed at the start is hooked, or could not be hooked.
    settled: bool,
    history: History,
    /// Messages that wait for the end of a list, or of a turn.
    waiting: VecDeque<Message>,
}

impl Agent {
    /// An agent without any facts, so it denies nothing.
    pub fn new(
        state: State,
        writer: Writer,
        (report, demotions): (Report, Demotions),
        (datapath, translators): (Datapath, Translators),
        (api, pace): (Watches, Pace),
        node_modes: NodeModes,
        args: &AgentArgs,
    ) -> Self {
        let view = Freshness::new(&Watched::ALWAYS, args.max_view_age, fastrand::f64);
        Self {
            state,
            writer,
            attachments: Attachments::new(datapath, args.selection(), args.clsact_delay),
            report,
            lease: Lease::new(view, args.lease, Clocks::now()),
            api,
            pace,
            confirmation: Confirmation::default(),
            demotions,
            node_modes,
            translators,
            watches: Watched::ALWAYS.into_iter().map(|id| (id, Watch::default())).collect(),
            timings: Timings::start(),
            ask_for_presence: sync::watch::Sender::new(true),
            refused: 0,
            recent: None,
            settled: false,
            history: History::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Does the periodic work, and renews the lease while the view is fresh.
    pub fn on_tick(&mut self) -> Result<()> {
        self.apply_lifts()?;
        self.state.tick(now());
        self.writer.sweep_flows()?;
        self.confirmation.tick(now(), &mut self.state, &self.api, &mut self.report);
        self.demotions.tick(now(), &mut self.state, &mut self.writer, &self.report.names)?;
        self.report.tick(now(), &self.state, &mut self.writer)?;
        self.write()?;
        if self.state.is_synced() {
            // Restored denials changed no map, so their names have not been recorded yet.
            self.report.names.keep(&self.state);
        }
        self.attachments.tick();
        self.attachments.write_roles(&mut self.writer);
        self.translators.follow(&mut self.writer)?;
        let (in_force, everywhere) = self.attachments.follow_socket_lb()?;
        self.writer.view.judge_by_socket(in_force, everywhere && self.settled)?;
        self.keep_view_fresh()?;
        let denies = self.denies();
        self.lease.log(now(), denies);
        Ok(())
    }

    /// Applies an event of netlink: hooks new interfaces, and drops deleted ones.
    pub fn on_interface(&mut self, event: LinkEvent) -> Result<()> {
        match event {
            LinkEvent::Appeared(interface) => self.attachments.appeared(&interface),
            LinkEvent::Gone { ifindex } => self.attachments.gone(ifindex),
            LinkEvent::Defaults(defaults) => self.attachments.set_defaults(defaults)?,
            LinkEvent::Lost => self.attachments.lost(),
            LinkEvent::Recovered => self.attachments.recovered(),
            LinkEvent::Addresses(addresses) => {
                self.state.begin_fact(now(), Fact::LocalAddresses(addresses));
                self.write()?;
            }
            LinkEvent::Held(ips) => {
                let presence = ips.map_or(Presence::Unknown, Presence::Held);
                self.state.begin_fact(now(), Fact::Presence(presence));
                self.write()?;
            }
            LinkEvent::Announced(ips) => {
                self.state.begin_fact(now(), Fact::Presence(Presence::Announced(ips)));
            }
            LinkEvent::Looked(at) => self.state.begin_fact(now(), Fact::Presence(Presence::Looked(at))),
            LinkEvent::Settled => {
                self.attachments.settled(&mut self.writer)?;
                self.settled = true;
                self.insist_on_hooks()?;
                self.attachments.remove_leftovers();
            }
        }
        self.attachments.write_roles(&mut self.writer);
        Ok(())
    }

    /// Takes in reports of packets that were denied, or that lift a denial, as many as the node's budget allows.
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
            self.state.denied(event);
            if let Some(protocol) = Protocol::from_repr(event.protocol) {
                let socket = Endpoint { ip: event.dst, port: event.dst_port, protocol };
                self.state.hit(now(), event.service, &socket);
            }
        }
        if spoke { self.write() } else { Ok(()) }
    }

    /// A receiver whose value is true while the agent needs the addresses that the node leads to.
    pub fn asks_for_presence(&self) -> sync::watch::Receiver<bool> {
        self.ask_for_presence.subscribe()
    }

    /// Applies every IP that the programs saw in use, whether or not the ring buffer had room to report it.
    pub(super) fn apply_lifts(&mut self) -> Result<()> {
        for lift in self.writer.take_lifts()? {
            self.report.lifted(&self.state, &lift);
            self.apply_lift(lift.ip, lift.at);
        }
        for (ip, at) in self.writer.take_sightings() {
            let sighted = Presence::Sighted(ip, at);
            self.state.begin_fact(now(), Fact::Presence(sighted));
        }
        Ok(())
    }

    /// Records that a packet from the IP was seen.
    pub(super) fn apply_lift(&mut self, ip: Addr, at: Duration) {
        let spoke = Presence::Spoke(ip, at);
        self.state.begin_fact(now(), Fact::Presence(spoke));
    }

    /// Removes all programs, links and maps of epguard from the kernel.
    pub fn detach(self) -> Result<Vec<String>> {
        self.attachments.detach()
    }

    /// Writes the maps.
    fn write(&mut self) -> Result<()> {
        self.install()?;
        if !self.state.is_unfinished() {
            self.timings.written();
        }
        Ok(())
    }

    /// Writes the maps, but not before the sync. Until then denials that an earlier process proved stay under its
    /// lease, or a restart would let packets through.
    fn install(&mut self) -> Result<()> {
        let asks = self.state.asks_for_presence();
        self.ask_for_presence.send_if_modified(|asked| std::mem::replace(asked, asks) != asks);
        if !self.state.is_synced() {
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

    /// Renews the lease if the view is fresh enough. Requires that everything received so far is in the maps. While
    /// there are denials, asks for confirmations of the watches that are due.
    fn keep_view_fresh(&mut self) -> Result<()> {
        let renewed = self.lease.renew(Clocks::now(), self.state.is_synced());
        if let Some(deadline) = renewed {
            self.writer.view.renew_lease(nanoseconds(deadline))?;
        }
        if self.denies() {
            for Due { watch, within } in self.lease.view.due(now()) {
                self.api.confirm(watch, within);
            }
        }
        while let Some((node, within)) = self.state.take_node_check(now()) {
            self.api.look_at_node(node, within);
        }
        Ok(())
    }
}
