//! The agent as its main loop drives it: real watches, state, lease and plan, over maps that
//! outlive it.
//!
//! Nothing but this file knows the agent's types.

use crate::cluster::Ip;
use crate::debts::{SHARE, SHARE_RETURNS};
use crate::objects::{NODE_NAMES, Service};
use anyhow::Result;
use epguard::daemon::lease::Lease;
use epguard::daemon::run::gather::Gather;
use epguard::daemon::run::inbox::{BACKLOG, Inbox, Input};
use epguard::daemon::turn::message_queue::MessageQueue;
use epguard::daemon::turn::{Observer, TURN, Turn, UNREAD};
use epguard::shared::clock::Clocks;
use epguard::watch::{Message, WatchEvent, Watches, start};
use epguard_common::{Addr, Event, Mode, Reason, Suspect, Uid, UidState};
use epguard_core::facts::{
    Change, Cidr, Fact, ModePolicy, ObjectName, Presence, Protocol, Routes, Selection, Watched,
};
use epguard_core::freshness::Freshness;
use epguard_core::plan;
use epguard_core::state::{Cost, Endpoint, Ipam, Numbers, Ranges, Settings, State, Tables, report};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Pending, pending};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::channel;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

const LEASE: Duration = Duration::from_secs(15);
const TICK: Duration = Duration::from_secs(1);
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
    /// The pods that denials name: another file there.
    names: BTreeMap<Uid, ObjectName>,
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

/// What the agent's work costs, in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Of each message.
    pub message: Duration,
    /// Of each part of a list, and of each piece that is judged.
    pub step: Duration,
    /// Objects in a part, and endpoints in a piece.
    pub piece: usize,
}

/// The agent has no reports of packets but those that the model gives it.
type Silence = fn() -> Pending<Result<Vec<Event>>>;

pub struct Agent {
    state: State,
    lease: Lease,
    watches: Watches,
    waiting: MessageQueue,
    inbox: Inbox<Silence>,
    costs: Costs,
    /// When the turn ends that it takes.
    ends: Option<Instant>,
    /// How many turns have ended.
    turns: u64,
    /// The latest report of netlink.
    told: Option<Presence>,
    /// When second lists of a namespace's objects were requested.
    requested: BTreeMap<String, Vec<Instant>>,
}

/// What the agent does next.
pub enum Next {
    /// A turn, for this.
    Begin(Input),
    /// The turn that it takes is over.
    End,
}

/// The time that a turn takes.
struct Meter {
    costs: Costs,
    spent: Duration,
    is_half_applied: bool,
}

impl Denied {
    pub fn is_of(&self, service: &Service, ip: Ip) -> bool {
        self.ip == ip && self.vip == Some(service.vip.of(ip.six))
    }
}

impl Agent {
    pub fn start(client: &kube::Client, kernel: &Kernel, costs: Costs) -> Self {
        let (tx, messages) = channel(BACKLOG);
        let settings = Settings {
            node: NODE_NAMES[0].into(),
            ipam: Ipam::Auto,
            ranges: Ranges::default(),
        };
        let state = State::with_numbers(settings, Numbers::after(kernel.last_service));
        let mut state = if costs == Costs::NONE {
            state
        } else {
            state.with_piece(costs.piece)
        };
        for (namespace, name) in &kernel.convicted {
            state.demote(boot(), &ObjectName::new(namespace.as_str(), name.as_str()));
        }
        state.know_names(kernel.names.clone());
        state.restore(kernel.installed.clone());
        state.apply(
            boot(),
            Fact::LocalAddresses(vec![Addr::v4([192, 168, 250, 11])]),
        );
        let view = Freshness::new(&Watched::ALWAYS, MAX_VIEW_AGE, fastrand::f64);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let inbox = Inbox {
            tick,
            probes: channel(1).1,
            node: channel(1).1,
            snapshots: watch::channel(Arc::default()).1,
            messages,
            gather: Gather::default(),
            questions: channel(1).1,
            reports: pending as Silence,
            has_worked: false,
        };
        Self {
            state,
            lease: Lease::new(view, LEASE, clocks()).inheriting(kernel.deadline),
            watches: start(client, boot, NODE_NAMES[0], None, &tx),
            waiting: MessageQueue::default(),
            inbox,
            costs,
            ends: None,
            turns: 0,
            told: None,
            requested: BTreeMap::new(),
        }
    }

    /// Its next tick comes after this time.
    pub fn tick_every(&mut self, period: Duration) {
        self.inbox.tick = interval(period);
    }

    /// Waits for what it does next, as `run`. Safe to cancel.
    pub async fn next(&mut self) -> Next {
        if let Some(ends) = self.ends {
            sleep_until(ends).await;
            return Next::End;
        }
        let has_backlog = self.waiting.count() > 0 || self.state.has_backlog();
        let input = self.inbox.next(has_backlog).await;
        Next::Begin(input.expect("no source of reports fails"))
    }

    /// How many messages are not applied yet.
    pub fn unread(&self) -> usize {
        self.waiting.count() + self.inbox.messages.len()
    }

    /// Whether it has nothing to do that may show that a denial is wrong.
    pub fn is_idle(&self) -> bool {
        self.ends.is_none() && self.unread() == 0 && !self.state.is_half_applied()
    }

    /// Whether a part of a list waits.
    pub fn is_half_applied(&self) -> bool {
        self.state.is_half_applied()
    }

    /// Whether a fact has waited for so long that the lease ends.
    pub fn is_late(&self) -> bool {
        self.waiting.longest() > Some(UNREAD)
    }

    /// Whether a namespace may have used up its share of second lists: the next ones come one by
    /// one.
    pub fn has_used_a_share(&self) -> bool {
        let mut all = self.requested.values();
        all.any(|requested| {
            requested
                .iter()
                .filter(|at| at.elapsed() < SHARE_RETURNS)
                .count()
                >= SHARE
        })
    }

    /// How many turns have ended.
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// What it knows of an IP.
    pub fn view(&self, ip: Ip) -> String {
        format!("{:?}", report::view_ip(&self.state, addr(ip)))
    }

    pub fn is_synced(&self) -> bool {
        self.state.is_synced()
    }

    /// Begins a turn, as `act`. `routes` is what netlink would show.
    pub fn begin(&mut self, kernel: &mut Kernel, input: Input, routes: Option<Vec<Ip>>) {
        for message in self
            .inbox
            .take_messages(BACKLOG.saturating_sub(self.waiting.count()))
        {
            if let WatchEvent::Skipped(what) = message.event {
                panic!("the agent cannot read {what}");
            }
            self.waiting.push(message);
        }
        match input {
            Input::Tick => self.tick(kernel, routes),
            Input::Work => {}
            other => panic!("nothing sends {other:?}"),
        }
        let is_half_applied = self.state.is_half_applied();
        let mut meter = Meter {
            costs: self.costs,
            spent: Duration::ZERO,
            is_half_applied,
        };
        let part = self.costs.piece;
        self.turn(part).run(&mut meter);
        self.ends = Some(Instant::now() + meter.spent);
        if meter.spent.is_zero() {
            self.end(kernel);
        }
    }

    /// Ends a turn: what it has found is written.
    pub fn end(&mut self, kernel: &mut Kernel) {
        self.ends = None;
        self.turns += 1;
        self.write(kernel);
        let tables = self.state.tables();
        let mut orphan_ips = tables.terminated.values();
        let denies =
            !tables.denied.is_empty() || orphan_ips.any(|orphan_ip| orphan_ip.lifted.is_none());
        if let Some(deadline) = self.turn(0).renew(clocks(), denies) {
            kernel.deadline = deadline;
        }
    }

    const fn turn(&mut self, part: usize) -> Turn<'_> {
        Turn {
            state: &mut self.state,
            lease: &mut self.lease,
            waiting: &mut self.waiting,
            watches: &self.watches,
            clock: boot,
            part,
        }
    }

    /// As `Agent::on_tick`, and before it a report of netlink.
    fn tick(&mut self, kernel: &mut Kernel, routes: Option<Vec<Ip>>) {
        let now = boot();
        let presence = routes.map_or(Presence::Unknown, |ips| {
            Presence::Routes(Routes::new(
                &Cidr::ALL,
                ips.iter().map(|ip| Cidr::of(addr(*ip))),
            ))
        });
        if self.told.as_ref() != Some(&presence) {
            self.told = Some(presence.clone());
            self.state.begin_fact(now, Fact::Presence(presence));
        }
        self.state.begin_tick(now);
        for list in self.state.take_second_lists(now) {
            if let Some(
                Selection::Labelled { namespace, .. } | Selection::SlicesOf { namespace, .. },
            ) = &list.selection
            {
                self.requested
                    .entry(namespace.to_string())
                    .or_default()
                    .push(Instant::now());
            }
            self.watches
                .list(list.kind, list.selection, self.state.spread());
        }
        for finding in self.state.take_findings() {
            match finding.cost() {
                Some(Cost::Service(service)) => {
                    kernel
                        .convicted
                        .insert((service.namespace.to_string(), service.name.to_string()));
                    self.state.demote(now, service);
                }
                Some(Cost::Reason(reason)) => kernel.demoted.push(reason),
                None => {}
            }
        }
    }

    /// As `Agent::on_events`: packets to whatever is denied.
    pub fn on_calls(&mut self, kernel: &Kernel) {
        for event in kernel.calls() {
            self.state.add_denied_packet(&event);
            let socket = Endpoint {
                ip: event.dst,
                port: event.dst_port,
                protocol: Protocol::Tcp,
            };
            self.state.hit(boot(), event.service, &socket);
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
        let denied = changes
            .denied
            .iter()
            .filter_map(|key| self.state.tables().denied.get(key));
        for uid in denied.flat_map(|denial| [denial.dead_uid, denial.owner_uid]) {
            kernel
                .names
                .extend(self.state.pod_name(uid).map(|name| (uid, name.clone())));
        }
        for op in plan::tables(&kernel.installed, self.state.tables(), &changes) {
            op.apply(&mut kernel.installed);
        }
        let numbers = kernel.installed.services.values();
        let last = numbers.map(|service| service.number).max();
        kernel.last_service = kernel.last_service.max(last.unwrap_or(0));
        self.state.take_owners(usize::MAX);
    }
}

impl Costs {
    /// Work takes no time, and all is done at once.
    pub const NONE: Self = Self {
        message: Duration::ZERO,
        step: Duration::ZERO,
        piece: usize::MAX,
    };

    /// How long a turn takes at most.
    pub fn longest_turn(self) -> Duration {
        if self == Self::NONE {
            return Duration::ZERO;
        }
        TURN + self.message + self.step
    }

    /// How long what waits takes at most to be read and judged, whatever it is: a flood has 60
    /// writes.
    pub fn backlog(self) -> Duration {
        60 * (self.message + self.step)
    }

    /// How long a fact may wait.
    pub fn unread(self) -> Duration {
        if self == Self::NONE {
            Duration::ZERO
        } else {
            UNREAD + self.longest_turn()
        }
    }

    /// Whether the agent reads as fast as anything is written.
    pub fn keep_up(self) -> bool {
        self.message <= Duration::from_micros(100)
    }
}

impl Observer for Meter {
    fn spent(&self) -> Duration {
        self.spent
    }

    fn receives(&mut self, _: &Message) {}

    fn applied(&mut self, state: &State) {
        self.spent += self.costs.message;
        self.is_half_applied = state.is_half_applied();
    }

    fn stepped(&mut self, state: &State) {
        if state.judged().is_some() || self.is_half_applied {
            self.spent += self.costs.step;
        }
        self.is_half_applied = state.is_half_applied();
    }

    fn revived(&mut self, _: &ObjectName) {}

    fn takes_policy(&mut self, _: Change<ModePolicy>) {}
}

impl Kernel {
    /// One that was started anew, where agents have convicted these Services.
    pub fn after(convicted: BTreeSet<(String, String)>) -> Self {
        Self {
            convicted,
            ..Self::default()
        }
    }

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
            let of = installed
                .denied
                .iter()
                .filter(|(target, _)| target.service == *number);
            for (target, denial) in of {
                let suspect = installed.suspects.get(&target.addr);
                let judged = suspect.is_some_and(|suspect| suspect.flags & Suspect::DENIED != 0);
                let enforced =
                    denial.mode == Mode::Enforce && !self.demoted.contains(&denial.reason);
                if judged && denial.stopped == 0 && enforced {
                    denied.push(Denied {
                        vip: Some(ip(vip.addr)),
                        ip: ip(target.addr),
                        reason: denial.reason.as_str(),
                        dead: (denial.uid_state == UidState::Dead)
                            .then_some(denial.dead_uid.octets),
                    });
                }
            }
        }
        for (addr, vacant) in &installed.terminated {
            let enforced =
                vacant.mode == Mode::Enforce && !self.demoted.contains(&Reason::Terminated);
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
    ip.to_string()
        .parse::<std::net::IpAddr>()
        .expect("an IP")
        .into()
}

/// The model's clocks never jump.
fn clocks() -> Clocks {
    let boot = boot();
    Clocks {
        boot,
        monotonic: boot,
        real: boot,
    }
}
