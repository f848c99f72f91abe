//! The body of the agent's loop: what each kind of event changes. No function here waits.

mod history;
mod interfaces;
mod lifts;
mod messages;
mod node_modes;
mod overview;
mod reports;
#[cfg(test)]
mod tests;
mod unproven;
mod watches;

use crate::daemon::args::AgentArgs;
use crate::daemon::attachments::Attachments;
use crate::daemon::confirmation::Confirmation;
use crate::daemon::lease::Lease;
use crate::daemon::mode_policy::NodeModes;
use crate::daemon::pod_names::Names;
use crate::daemon::report::denial_log::Report;
use crate::daemon::report::kube_events::Announcer;
use crate::daemon::report::metrics::Timings;
use crate::daemon::report::ring_buffer::Budget;
use crate::daemon::report::tally::Ledger;
use crate::daemon::translators::Translators;
use crate::kernel::datapath::Datapath;
use crate::kernel::maps::Writer;
use crate::shared::clock::{Clocks, boot as now, nanoseconds};
use crate::shared::pace::Pace;
use crate::shared::status::{Status, Watch};
use crate::watch::{Message, Watches};
use anyhow::Result;
use epguard_common::Mode;
use epguard_core::facts::Watched;
use epguard_core::freshness::{Due, Freshness};
use epguard_core::history::History;
use epguard_core::state::State;
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
    names: Names,
    budget: Budget,
    ledger: Ledger,
    due_counts: reports::DueCounts,
    lease: Lease,
    api: Watches,
    pace: Pace,
    confirmation: Confirmation,
    announcer: Announcer,
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
    #[must_use]
    pub fn new(
        (state, names): (State, Names),
        writer: Writer,
        (datapath, translators): (Datapath, Translators),
        (api, pace): (Watches, Pace),
        announcer: Announcer,
        node_modes: NodeModes,
        args: &AgentArgs,
    ) -> Self {
        let view = Freshness::new(&Watched::ALWAYS, args.max_view_age, fastrand::f64);
        Self {
            state,
            writer,
            attachments: Attachments::new(
                datapath,
                args.selection(),
                args.mode == Mode::Enforce,
                args.clsact_delay,
            ),
            report: Report::default(),
            names,
            budget: Budget::default(),
            ledger: Ledger::default(),
            due_counts: reports::DueCounts::default(),
            lease: Lease::new(view, args.lease, Clocks::now()),
            api,
            pace,
            confirmation: Confirmation::new(args.on_wrong_deny),
            announcer,
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
        let (state, writer, announcer) = (&mut self.state, &mut self.writer, &mut self.announcer);
        self.confirmation.tick(now(), state, writer, &self.api, announcer)?;
        self.report_denied()?;
        self.announcer.tick(now());
        self.write()?;
        self.keep_names();
        self.attachments.tick();
        self.show_roles();
        self.translators.follow(&mut self.writer)?;
        let (in_force, everywhere) = self.attachments.follow_socket_lb()?;
        self.writer.judge_by_socket(in_force, everywhere && self.settled)?;
        self.keep_view_fresh()?;
        let denies = self.denies();
        self.lease.log(now(), denies);
        Ok(())
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
        self.report.add_names(&self.state, &keys);
        self.writer.install_changes(self.state.tables(), keys)?;
        self.timings.reused(self.state.take_reuse_gaps());
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
            self.writer.renew_lease(nanoseconds(deadline))?;
        }
        if self.denies() {
            for Due { watch, within } in self.lease.view.due(now()) {
                self.api.confirm(watch, within);
            }
        }
        Ok(())
    }
}
