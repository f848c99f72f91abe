//! The agent as its main loop drives it: real watches, state, lease and plan, over maps that outlive it.
//!
//! Nothing but this file knows the agent's types.

use crate::cluster::Ip;
use crate::objects::{NODE_NAMES, Service};
use epguard::daemon::lease::Lease;
use epguard::shared::clock::Clocks;
use epguard::watch::{Event as Told, Message, Watches, start};
use epguard_common::{Addr, Event, Mode, Reason, Suspect, UidState};
use epguard_core::facts::Watched;
use epguard_core::facts::{Fact, Presence, Protocol};
use epguard_core::freshness::{Due, Freshness};
use epguard_core::plan;
use epguard_core::state::{Cost, Endpoint, Ipam, Numbers, Ranges, Settings, State, Tables};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(15);
pub const MAX_VIEW_AGE: Duration = Duration::from_secs(30);

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

pub fn begin() {
    BEGAN.set(Some(Instant::now()));
}

/// The model's `CLOCK_BOOTTIME`.
pub fn boot() -> Duration {
    let began = BEGAN.get();
    Duration::from_secs(1_000) + began.map_or(Duration::ZERO, |began| began.elapsed())
}

/// The kernel's side: what agents leave behind.
#[derive(Default)]
pub struct Kernel {
    pub installed: Tables,
    pub deadline: Duration,
    /// Reasons that are only observed: CONFIG.
    demoted: Vec<Reason>,
    /// Services that are only observed, by namespace and name: the file of the run directory.
    pub convicted: BTreeSet<(String, String)>,
    /// The greatest number of a Service that was written.
    last_service: u32,
}

/// A denial that the kernel carries out, in the model's own types.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denied {
    /// None for `terminated`.
    pub vip: Option<Ip>,
    pub ip: Ip,
    pub reason: &'static str,
    /// The UID, if the proof is a death.
    pub dead: Option<[u8; 16]>,
}

pub struct Agent {
    state: State,
    lease: Lease,
    watches: Watches,
    messages: mpsc::Receiver<Message>,
    /// The latest report of netlink.
    told: Option<Presence>,
}

impl Denied {
    pub fn is_of(&self, service: &Service, ip: Ip) -> bool {
        self.ip == ip && self.vip == Some(service.vip.of(ip.six))
    }
}

impl Agent {
    pub fn start(client: &kube::Client, kernel: &Kernel) -> Self {
        let (tx, messages) = mpsc::channel(4096);
        let settings = Settings { node: NODE_NAMES[0].into(), ipam: Ipam::Auto, ranges: Ranges::default() };
        let mut state = State::with_numbers(settings, Numbers::after(kernel.last_service));
        for (namespace, name) in &kernel.convicted {
            state.demote(boot(), &(namespace.as_str().into(), name.as_str().into()));
        }
        state.restore(kernel.installed.clone());
        state.apply(boot(), Fact::LocalAddresses(vec![Addr::v4([192, 168, 250, 11])]));
        let view = Freshness::new(&Watched::ALWAYS, MAX_VIEW_AGE, fastrand::f64);
        Self {
            state,
            lease: Lease::new(view, LEASE, clocks()).inheriting(kernel.deadline),
            watches: start((client, boot), (NODE_NAMES[0], None), &tx),
            messages,
            told: None,
        }
    }

    pub async fn next(&mut self) -> Vec<Message> {
        let mut batch = Vec::new();
        self.messages.recv_many(&mut batch, 4096).await;
        batch
    }

    /// What it knows of an IP.
    pub fn view(&self, ip: Ip) -> String {
        format!("{:?}", self.state.view(addr(ip)))
    }

    pub fn is_synced(&self) -> bool {
        self.state.is_synced()
    }

    /// As `Agent::on_messages`.
    pub fn on_messages(&mut self, kernel: &mut Kernel, messages: Vec<Message>) {
        let mut changed = false;
        for Message { watch, event } in messages {
            match event {
                Told::Fact { fact, .. } => {
                    changed = true;
                    self.state.apply(boot(), *fact);
                    if self.state.take_revived().is_some() {
                        self.lease.view.void(None, boot());
                        for id in Watched::ALWAYS {
                            self.watches.list(id, None, self.state.spread());
                        }
                    }
                }
                Told::Proven { as_of, by } => {
                    self.lease.view.proven(watch, as_of, by);
                }
                Told::NodeSeen(seen) => {
                    changed = true;
                    self.state.apply(boot(), Fact::NodeSeen(seen));
                }
                Told::Behind => self.lease.view.void(Some(watch), boot()),
                Told::Rewound(_) => self.start_over(watch),
                Told::Up => self.lease.view.connected(watch, true),
                Told::Down { .. } => self.lease.view.connected(watch, false),
                Told::Skipped(what) => panic!("the agent cannot read {what}"),
                Told::Progress(_) | Told::Unconfirmed(_) => {}
            }
        }
        if changed {
            self.write(kernel);
        }
        self.write_view(kernel);
    }

    /// As `Agent::on_tick`; `routes` is what netlink would show.
    pub fn on_tick(&mut self, kernel: &mut Kernel, routes: Option<Vec<Ip>>) {
        let now = boot();
        let presence =
            routes.map_or(Presence::Unknown, |ips| Presence::Held(ips.iter().map(|ip| addr(*ip)).collect()));
        if self.told.as_ref() != Some(&presence) {
            self.told = Some(presence.clone());
            self.state.apply(now, Fact::Presence(presence));
        }
        self.state.tick(now);
        for finding in self.state.take_findings() {
            match finding.cost() {
                Some(Cost::Service(service)) => {
                    kernel.convicted.insert((service.0.to_string(), service.1.to_string()));
                    self.state.demote(now, service);
                }
                Some(Cost::Reason(reason)) => kernel.demoted.push(reason),
                None => {}
            }
        }
        for opinion in self.state.take_opinions(now) {
            self.watches.list(opinion.kind, opinion.selection, self.state.spread());
        }
        self.write(kernel);
        self.write_view(kernel);
    }

    /// As `Agent::on_events`: packets to whatever is denied.
    pub fn on_calls(&mut self, kernel: &Kernel) {
        for event in kernel.calls() {
            self.state.denied(&event);
            let socket = Endpoint { ip: event.dst, port: event.dst_port, protocol: Protocol::Tcp };
            self.state.hit(boot(), event.service, &socket);
        }
    }

    fn start_over(&mut self, noticed_by: Watched) {
        self.lease.view.void(None, boot());
        if self.state.is_synced() {
            self.state.start_over(boot());
            for id in Watched::ALWAYS.into_iter().filter(|id| *id != noticed_by) {
                self.watches.list(id, None, self.state.spread());
            }
        }
    }

    fn write(&mut self, kernel: &mut Kernel) {
        if !self.state.is_synced() {
            if let Some((kept, changes)) = self.state.take_contradicted() {
                for op in plan::tables(&kernel.installed, kept, &changes) {
                    op.apply(&mut kernel.installed);
                }
            }
            return;
        }
        let changes = self.state.take_changes();
        for op in plan::tables(&kernel.installed, self.state.tables(), &changes) {
            op.apply(&mut kernel.installed);
        }
        let numbers = kernel.installed.services.values();
        let last = numbers.map(|service| service.number).max();
        kernel.last_service = kernel.last_service.max(last.unwrap_or(0));
        self.state.take_owners(usize::MAX);
    }

    fn write_view(&mut self, kernel: &mut Kernel) {
        while let Some((node, within)) = self.state.take_node_check(boot()) {
            self.watches.look_at_node(node, within);
        }
        if let Some(deadline) = self.lease.renew(clocks(), self.state.is_synced(), false) {
            kernel.deadline = deadline;
        }
        let tables = self.state.tables();
        let denies =
            !tables.denied.is_empty() || tables.terminated.values().any(|vacant| vacant.lifted.is_none());
        if denies {
            for Due { watch, within } in self.lease.view.due(boot()) {
                self.watches.confirm(watch, within);
            }
        }
    }
}

impl Kernel {
    /// What the programs report of a packet to each endpoint that is denied.
    fn calls(&self) -> Vec<Event> {
        if self.deadline <= boot() {
            return Vec::new();
        }
        let denied = self.installed.denied.iter().map(|(target, denial)| Event {
            at_ns: u64::try_from(boot().as_nanos()).unwrap_or(u64::MAX),
            dead_uid: denial.dead_uid,
            owner_uid: denial.owner_uid,
            dst: target.addr,
            dst_port: target.port,
            reason: denial.reason as u32,
            service: target.service,
            protocol: target.protocol,
            ..Event::default()
        });
        denied.collect()
    }

    /// Every denial that is carried out now, in mode enforce.
    pub fn in_force(&self) -> Vec<Denied> {
        if self.deadline <= boot() {
            return Vec::new();
        }
        let installed = &self.installed;
        let mut denied = Vec::new();
        for (vip, number) in installed.services.iter() {
            let of = installed.denied.iter().filter(|(target, _)| target.service == *number);
            for (target, denial) in of {
                let suspect = installed.suspects.get(&target.addr);
                let judged = suspect.is_some_and(|suspect| suspect.flags & Suspect::DENIED != 0);
                let enforced = denial.mode == Mode::Enforce && !self.demoted.contains(&denial.reason);
                if judged && denial.held == 0 && enforced {
                    denied.push(Denied {
                        vip: Some(ip(vip.addr)),
                        ip: ip(target.addr),
                        reason: denial.reason.as_str(),
                        dead: (denial.uid_state == UidState::Dead).then_some(denial.dead_uid.octets),
                    });
                }
            }
        }
        for (addr, vacant) in &installed.terminated {
            let enforced = vacant.mode == Mode::Enforce && !self.demoted.contains(&Reason::Terminated);
            if vacant.lifted.is_none() && enforced {
                denied.push(Denied {
                    vip: None,
                    ip: ip(*addr),
                    reason: Reason::Terminated.as_str(),
                    dead: Some(vacant.dead.octets),
                });
            }
        }
        denied
    }
}

/// A UID as the maps show it.
pub fn octets(uid: &str) -> [u8; 16] {
    epguard_common::Uid::parse(uid).map_or([0; 16], |uid| uid.octets)
}

fn ip(addr: Addr) -> Ip {
    let [.., a, b, c, d] = addr.octets;
    Ip::four([a, b, c, d]).of(!addr.is_v4())
}

fn addr(ip: Ip) -> Addr {
    ip.to_string().parse::<std::net::IpAddr>().expect("an IP").into()
}

/// The model's clocks never jump.
fn clocks() -> Clocks {
    let boot = boot();
    Clocks { boot, monotonic: boot, real: boot }
}
