//! The agent's loop with its maps, fed by hand: without an API server, netlink and hooks.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the benchmark uses its own part, and may panic"
)]

pub mod neighbour;
pub mod victim;

use anyhow::Result;
use aya::maps::{HashMap, MapData};
use clap::Parser as _;
use epguard::cli::{Cli, Command};
use epguard::daemon::agent::{Agent, AgentParts};
use epguard::daemon::demotion::Demotions;
use epguard::daemon::mode_policy::{Actions, Modes, NodeModePolicy};
use epguard::daemon::node_thread::{NodeEvent, NodeOrder, NodeThread, Snapshot, Work};
use epguard::daemon::report::Names;
use epguard::daemon::report::denial_log::Report;
use epguard::daemon::report::kube_events::{Announce, Announcer};
use epguard::daemon::run::act;
use epguard::daemon::run::gather::Gather;
use epguard::daemon::run::inbox::{BACKLOG, Inbox};
use epguard::kernel::datapath::{Datapath, Hooks};
use epguard::kernel::maps::{Writer, open};
use epguard::node::netlink;
use epguard::shared::clock::boot;
use epguard::shared::pace::Pace;
use epguard::watch::{self, Message};
use epguard_common::{Config, Event, Keyed, ServiceNumber, Vip};
use epguard_core::facts::{Cidr, Fact, Object, Routes, Watched};
use epguard_core::state::{Settings, State};
use epguard_lab::workdir::Workdir;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{MissedTickBehavior, interval};

/// The node of the agent.
pub const NODE: &str = "node-a";

/// No list is requested.
type NoLists = fn() -> std::future::Pending<Result<Vec<Event>>>;

/// The loop. Its channels are as large as the agent's.
pub struct RealLoop {
    agent: Box<Agent>,
    inbox: Inbox<NoLists>,
    /// What a watch sends into.
    pub watches: Sender<Message>,
    node: Sender<NodeEvent>,
    judged: Judged,
    workdir: Workdir,
}

/// Which VIPs are judged, by the kernel's map.
pub struct Judged(HashMap<MapData, Vip, Keyed<Vip, ServiceNumber>>);

impl Judged {
    fn of(workdir: &Workdir) -> Self {
        Self(open(&pins(workdir), "SERVICES").unwrap())
    }

    /// Whether packets to the VIP are judged.
    pub fn has(&self, vip: &Vip) -> bool {
        self.0.get(vip, 0).is_ok()
    }
}

fn pins(workdir: &Workdir) -> PathBuf {
    workdir.pins().join("epguard")
}

/// There is nothing to hook.
struct Idle;

impl Work for Idle {
    fn carry_out(&mut self, _: NodeOrder) -> Result<()> {
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }
}

impl RealLoop {
    /// Before any list. Needs root and a runtime.
    pub fn new() -> Self {
        let workdir = Workdir::new().unwrap();
        let pins = pins(&workdir);
        let arguments = ["epguard", "agent", "--node-name", NODE, "--pin-dir"];
        let cli = Cli::parse_from(arguments.into_iter().chain(pins.to_str()));
        let Command::Agent(args) = cli.command else {
            panic!("another verb")
        };
        let mut datapath = Datapath::load(&pins, Hooks::Auto, 0).unwrap();
        let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
        writer.config.lock_in(&pins);
        let pace = Pace::new(1, 1);
        // Nothing answers there.
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = pace.client(kube::Client::try_from(nowhere).unwrap());
        let (unused, _) = channel(1);
        let own = watch::start(&client, boot, NODE, None, &unused);
        let announcer = Announcer::start(client, NODE.into(), Announce::None);
        let flags = Modes::of_flags(args.mode, args.reasons.modes());
        let flag_actions = Actions::of_flags(args.actions.actions());
        let (node_thread, _) = NodeThread::start(Idle).unwrap();
        let snapshots = node_thread.snapshots();
        let state = State::new(Settings {
            node: NODE.into(),
            ipam: args.ipam,
            ranges: args.ranges.ranges(),
        });
        let parts = AgentParts {
            state,
            writer,
            report: Report::new(Names::load(&workdir.path).unwrap(), announcer),
            demotions: Demotions::load(&workdir.path, args.on_wrong_deny).unwrap(),
            node: node_thread,
            api: own,
            pace,
            mode_policy: NodeModePolicy::new(None, flags, flag_actions, &Config::default()),
        };
        let agent = Agent::new(parts, &args);
        let (watches, messages) = channel(BACKLOG);
        let (node, events) = channel(BACKLOG);
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let inbox = Inbox {
            tick,
            probes: channel(1).1,
            node: events,
            snapshots,
            messages,
            gather: Gather::default(),
            questions: channel(1).1,
            reports: std::future::pending as fn() -> _,
            has_worked: false,
        };
        let judged = Judged::of(&workdir);
        Self {
            agent: Box::new(agent),
            inbox,
            watches,
            node,
            judged,
            workdir,
        }
    }

    /// The same with a list of each kind, which has no objects, and the node's routes.
    pub async fn synced() -> Self {
        let mut real_loop = Self::new();
        let change = netlink::NetworkChange::Routes(Some(Routes::new(&Cidr::ALL, [])));
        real_loop
            .node
            .send(NodeEvent {
                number: 1,
                received: boot(),
                change,
            })
            .await
            .unwrap();
        for watched in Watched::ALWAYS {
            real_loop.send(watched.empty());
        }
        real_loop.settle().await;
        real_loop
    }

    /// Sends a fact as a watch would.
    pub fn send(&self, fact: Fact) {
        self.watches.try_send(message(fact)).unwrap();
    }

    /// One turn of the loop.
    pub async fn turn(&mut self) {
        let turn = self.inbox.next(self.agent.has_backlog()).await.unwrap();
        self.agent.receive(
            self.inbox
                .take_messages(BACKLOG.saturating_sub(self.agent.waiting())),
        );
        act(&mut self.agent, turn).unwrap();
    }

    /// Turns until nothing waits.
    pub async fn settle(&mut self) {
        while self.has_work() {
            self.turn().await;
        }
    }

    /// True if something waits for the loop.
    pub fn has_work(&self) -> bool {
        self.agent.has_backlog() || !self.inbox.messages.is_empty() || !self.inbox.node.is_empty()
    }

    /// Whether packets to the VIP are judged, by the kernel's map.
    pub fn judges(&self, vip: &Vip) -> bool {
        self.judged.has(vip)
    }

    /// The same for another thread.
    pub fn judged(&self) -> Judged {
        Judged::of(&self.workdir)
    }
}

/// A message of the watch that shows the fact, received now.
pub fn message(fact: Fact) -> Message {
    let watch = Watched::of(&fact).unwrap();
    let event = watch::WatchEvent::Fact {
        received: Instant::now().into(),
        sent: None,
        rv: 1,
        fact: Box::new(fact),
    };
    Message { watch, event }
}

/// An object as its watch reads it.
pub fn read<O: Object>(object: &Value) -> O {
    O::parse(object.to_string().as_bytes()).unwrap()
}
