//! A light agent: the watches, state and lease of the real one, without a datapath. It does what `daemon/agent` does with each
//! message and at each tick.

use super::clock::{clocks, now};
use super::lapse::Lapse;
use epguard::daemon::lease::{Lease, period};
use epguard::watch::{Message, Pace, Watches, start_by};
use epguard_core::facts::Watched;
use epguard_core::freshness::{Due, Freshness};
use epguard_core::state::{Ipam, Ranges, Settings, State};
use kube::Client;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

// The defaults of the options.
const LEASE: Duration = Duration::from_secs(15);
const MAX_VIEW_AGE: Duration = Duration::from_secs(30);
const RATE: u32 = 5;
const BURST: u32 = 100;
const BACKLOG: usize = 4096;

pub(crate) struct Agent {
    state: State,
    lease: Lease,
    watches: Watches,
    messages: mpsc::Receiver<Message>,
    lapse: Arc<Mutex<Lapse>>,
}

impl Agent {
    /// Starts the watches. Its leases are noted in `lapse`.
    pub(crate) fn start(client: Client, node: &str, lapse: Arc<Mutex<Lapse>>) -> Self {
        let client = Pace::new(RATE, BURST).client(client);
        let (tx, messages) = mpsc::channel(BACKLOG);
        let settings = Settings {
            node: node.to_owned(),
            ipam: Ipam::Auto,
            ranges: Ranges::default(),
        };
        let view = Freshness::new(&Watched::ALWAYS, MAX_VIEW_AGE, fastrand::f64);
        Self {
            state: State::new(settings),
            lease: Lease::new(view, LEASE, clocks()),
            watches: start_by(now, &client, (node, None), &tx),
            messages,
            lapse,
        }
    }

    pub(crate) async fn run(mut self) {
        let period = period(LEASE, MAX_VIEW_AGE);
        sleep(period.mul_f64(fastrand::f64())).await;
        let mut tick = interval(period);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = tick.tick() => self.on_tick(),
                _ = self.messages.recv_many(&mut batch, BACKLOG) => {
                    batch.drain(..).for_each(|message| self.apply(message));
                }
            }
            self.write();
            self.vouch();
        }
    }

    fn on_tick(&mut self) {
        self.state.tick(now());
        for opinion in self.state.take_opinions(now()) {
            self.watches.list(opinion, self.state.spread());
        }
    }

    fn apply(&mut self, message: Message) {
        match message {
            Message::Fact { fact, .. } => {
                self.state.apply(now(), *fact);
                if self.state.take_revived().is_some() {
                    self.start_over(None);
                }
            }
            Message::Proven { watch, as_of, by } => self.lease.view.proven(watch, as_of, by),
            Message::Behind(watch) => self.lease.view.void_watch(watch, now()),
            Message::Rewound { watch, .. } => self.start_over(Some(watch)),
            Message::Up(watch) => self.lease.view.connected(watch, true),
            Message::Down { watch, .. } => self.lease.view.connected(watch, false),
            Message::Skipped { what, .. } => panic!("the agent cannot read {what}"),
            Message::Progress { .. } | Message::Unconfirmed { .. } => {}
        }
    }

    fn start_over(&mut self, noticed_by: Option<Watched>) {
        self.lease.view.void(now());
        if noticed_by.is_some() {
            if !self.state.is_synced() {
                return;
            }
            self.state.start_over(now());
        }
        for id in Watched::ALWAYS.into_iter().filter(|id| Some(*id) != noticed_by) {
            self.watches.relist(id, self.state.spread());
        }
    }

    /// Takes out what the maps would get.
    fn write(&mut self) {
        if self.state.is_synced() {
            let _ = self.state.take_changes();
            let _ = self.state.take_owners(usize::MAX);
            let _ = self.state.take_reuse_gaps();
        }
    }

    fn vouch(&mut self) {
        let renewed = self.lease.renew(clocks(), self.state.is_synced());
        let tables = self.state.tables();
        if !tables.denied.is_empty() || self.has_orphan_ips() {
            for Due { watch, within } in self.lease.view.due(now()) {
                self.watches.confirm(watch, within);
            }
        }
        let pending = tables.denied.values().filter(|denial| denial.held != 0).count();
        let mut lapse = self.lapse.lock().unwrap();
        lapse.note(now(), renewed, self.lease.view.age(now()));
        lapse.pending = lapse.pending.max(pending);
        lapse.denied = tables.denied.len() - pending;
    }

    fn has_orphan_ips(&self) -> bool {
        let mut orphan_ips = self.state.tables().terminated.values();
        orphan_ips.any(|orphan_ip| orphan_ip.lifted.is_none())
    }
}
