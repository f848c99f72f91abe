//! An agent without an API server and hooks, its maps in the kernel, and what its watches show.

use super::super::*;
use crate::cli::Cli;
use crate::cli::Command as Verb;
use crate::daemon::mode_policy::{Actions, Modes};
use crate::daemon::node_thread::{NodeOrder, Snapshot, Work};
use crate::daemon::report::Names;
use crate::daemon::report::kube_events::{Announce, Announcer};
use crate::kernel::datapath::{Datapath, Hooks};
use crate::kernel::maps::open;
use crate::shared::clock::boot;
use crate::watch::{self, Message};
use aya::maps::{Array, HashMap, MapData};
use clap::Parser as _;
use epguard_common::{Backends, Config, DenialKey, Keyed, ServiceNumber, Uid, View, Vip};
use epguard_core::facts::{Change, Object, Pod};
use epguard_core::freshness::Proof;
use epguard_core::state::Settings;
use hyper::{Request, Response};
use kube::client::Body;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use tempfile::{TempDir, tempdir};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The address of the node that is not the agent's.
pub const NODE_B: Addr = Addr::v4([192, 168, 250, 12]);

/// The port of `shop/web` at the nodes.
pub const NODE_PORT: u16 = 30080;

/// A bpffs of the test's own.
pub struct Bpffs(pub TempDir);

impl Bpffs {
    pub fn mount() -> Self {
        let folder = tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "bpf", "bpf"])
            .arg(folder.path())
            .status();
        assert!(mounted.unwrap().success());
        Self(folder)
    }
}

impl Drop for Bpffs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// A thread of the node whose call to the kernel takes as long as the test wants.
pub struct Slow {
    kernel: Receiver<()>,
    ticks: u64,
}

impl Slow {
    /// With what ends one call.
    pub fn new() -> (Self, Sender<()>) {
        let (answer, kernel) = channel();
        (Self { kernel, ticks: 0 }, answer)
    }
}

impl Work for Slow {
    fn carry_out(&mut self, _: NodeOrder) -> Result<()> {
        let _ = self.kernel.recv();
        self.ticks += 1;
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            ticks: self.ticks,
            ..Snapshot::default()
        }
    }
}

/// A thread of the node that has found this.
pub struct Found(pub Snapshot);

impl Work for Found {
    fn carry_out(&mut self, _: NodeOrder) -> Result<()> {
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        self.0.clone()
    }
}

/// A thread of the node that translates replies once it is told that flows are redirected.
#[derive(Default)]
pub struct Hooking {
    translates: bool,
}

impl Work for Hooking {
    fn carry_out(&mut self, order: NodeOrder) -> Result<()> {
        if let NodeOrder::Redirect(redirects) = order {
            self.translates = redirects;
        }
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            translates_replies: self.translates,
            ..Snapshot::default()
        }
    }
}

/// An agent without a reachable API server and without hooks.
pub fn agent(folder: &Path) -> Agent {
    agent_beside(folder, Slow::new().0)
}

/// The same beside this work of the node's thread.
pub fn agent_beside(folder: &Path, work: impl Work) -> Agent {
    let pins = folder.join("epguard");
    let arguments = ["epguard", "agent", "--node-name", "node-a", "--pin-dir"];
    let cli = Cli::parse_from(arguments.into_iter().chain(pins.to_str()));
    let Verb::Agent(args) = cli.command else {
        panic!("another verb")
    };
    let pace = Pace::new(1, 1);
    let refused =
        tower::service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("connection refused"));
    let client = pace.client(kube::Client::new(refused, "default"));
    let mut datapath = Datapath::load(&pins, Hooks::Auto, 0).unwrap();
    let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
    writer.config.lock_in(&pins);
    let settings = Settings {
        node: args.node_name.clone(),
        ipam: args.ipam,
        ranges: args.ranges.ranges(),
    };
    let state = State::new(settings);
    let (node, _) = NodeThread::start(work).unwrap();
    let (sender, _) = mpsc::channel(1);
    let watches = watch::start(&client, boot, "n1", None, &sender);
    let announcer = Announcer::start(client, args.node_name.clone(), Announce::None);
    let flags = Modes::of_flags(args.mode, args.reasons.modes());
    let flag_actions = Actions::of_flags(args.actions.actions());
    let names = Names::load(folder);
    let parts = AgentParts {
        state,
        writer,
        report: Report::new(names.unwrap(), announcer),
        demotions: Demotions::load(folder, args.on_wrong_deny).unwrap(),
        node,
        api: watches,
        pace,
        mode_policy: NodeModePolicy::new(None, flags, flag_actions, &Config::default()),
    };
    Agent::new(parts, &args)
}

pub fn message(fact: Fact) -> Message {
    message_of(Instant::now(), fact)
}

pub fn message_of(received: Instant, fact: Fact) -> Message {
    let watch = Watched::of(&fact).unwrap();
    let event = watch::WatchEvent::Fact {
        received,
        sent: None,
        rv: 1,
        fact: Box::new(fact),
    };
    Message { watch, event }
}

pub fn node_event(change: NetworkChange) -> NodeEvent {
    NodeEvent {
        number: 1,
        received: now(),
        change,
    }
}

pub fn parse<O: Object>(json: &serde_json::Value) -> O {
    O::parse(json.to_string().as_bytes()).unwrap()
}

/// A pod of `shop`, with the label `app`; one that is not running has ended.
pub fn pod(name: &str, phase: &str, app: &str) -> Fact {
    pod_at("10.244.2.10", name, phase, app)
}

/// The same with another IP.
pub fn pod_at(ip: &str, name: &str, phase: &str, app: &str) -> Fact {
    let state = if phase == "Running" {
        "running"
    } else {
        "terminated"
    };
    Fact::Pod(Change::Applied(parse(&json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": format!("11111111-1111-4111-8111-{name:0>12}"), "labels": {"app": app},
            "managedFields": [
                {"manager": "kubelet", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {
                    "f:phase": {}, "f:podIP": {}, "f:conditions": {"k:{\"type\":\"PodReadyToStartContainers\"}": {}},
                }}},
            ],
        },
        "spec": {"nodeName": "node-b"},
        "status": {
            "phase": phase, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "PodReadyToStartContainers", "status": if phase == "Running" { "True" } else { "False" }}],
            "containerStatuses": [{"name": "c", "state": {state: {"startedAt": "2026-01-01T00:00:00Z"}}}],
        },
    }))))
}

/// The pod that ends the denial of [`deny`]: the Service's own has the IP.
pub fn live_backend() -> Fact {
    pod("b", "Running", "web")
}

/// `shop/web` lists a dead pod; every watch has just been proven fresh.
pub fn deny(agent: &mut Agent) {
    sync(agent);
    let node = json!({
        "metadata": {"name": "node-b", "uid": "33333333-3333-4333-8333-333333333333"},
        "status": {"addresses": [{"type": "InternalIP", "address": NODE_B.ip().to_string()}]},
    });
    apply(
        agent,
        [
            Fact::Node(Change::Applied(parse(&node))),
            service(&json!({})),
            pod("a", "Running", "web"),
            listing("a", "10.244.2.10"),
            pod("a", "Failed", "web"),
        ],
    );
    agent.receive(
        Watched::ALWAYS
            .map(|watch| Message {
                watch,
                event: proven(),
            })
            .into(),
    );
    agent.run_turn().unwrap();
    assert!(agent.denies());
}

/// `shop/web` with these annotations.
pub fn service(annotations: &serde_json::Value) -> Fact {
    let uid = "22222222-2222-4222-8222-222222222222";
    Fact::Service(Change::Applied(parse(&json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": uid, "annotations": annotations},
        "spec": {"clusterIP": "10.96.0.1", "selector": {"app": "web"}, "ports": [{"port": 80, "nodePort": NODE_PORT}]},
    }))))
}

/// A slice of `shop/web` that lists a pod.
pub fn listing(pod: &str, ip: &str) -> Fact {
    Fact::Slice(Change::Applied(parse(&json!({
        "metadata": {"namespace": "shop", "name": format!("web-{pod}"), "labels": {
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{
            "addresses": [ip], "conditions": {"ready": true},
            "targetRef": {
                "kind": "Pod", "namespace": "shop", "name": pod, "uid": format!("11111111-1111-4111-8111-{pod:0>12}"),
            },
        }],
    }))))
}

/// How many endpoints have backends, by the map.
pub fn redirected(bpffs: &Bpffs) -> usize {
    let backends: HashMap<MapData, DenialKey, Keyed<DenialKey, Backends>> =
        open(&bpffs.0.path().join("epguard"), "BACKENDS").unwrap();
    backends.keys().count()
}

pub fn proven() -> watch::WatchEvent {
    watch::WatchEvent::Proven {
        as_of: now(),
        by: Proof::List,
    }
}

/// Of more objects than some turns apply.
pub fn begin_long_list(agent: &mut Agent) {
    let pods = (1..=20_000_u64).map(|number| Pod {
        uid: uid(number),
        ..Pod::default()
    });
    agent
        .state
        .begin_fact(now(), Fact::Pod(Change::Reset(pods.collect())));
}

pub fn uid(number: u64) -> Uid {
    Uid::parse(&format!("44444444-4444-4444-8444-{number:012x}")).unwrap()
}

/// The VIPs whose packets are judged, by the map.
pub fn vips(bpffs: &Bpffs) -> Vec<Vip> {
    let services: HashMap<MapData, Vip, Keyed<Vip, ServiceNumber>> =
        open(&bpffs.0.path().join("epguard"), "SERVICES").unwrap();
    services.keys().map(Result::unwrap).collect()
}

/// The end of the lease, by the map.
pub fn lease(bpffs: &Bpffs) -> Duration {
    let view: Array<MapData, View> = open(&bpffs.0.path().join("epguard"), "VIEW").unwrap();
    Duration::from_nanos(view.get(&0, 0).unwrap().lease_deadline_ns)
}

/// Takes as many turns as the facts need: on a busy machine one turn may end before them.
pub fn apply(agent: &mut Agent, facts: impl IntoIterator<Item = Fact>) {
    agent.receive(facts.into_iter().map(message).collect());
    let mut turns = 0..1000;
    while agent.has_backlog() {
        turns.next().expect("all is written after so many");
        agent.run_turn().unwrap();
    }
}

pub fn sync(agent: &mut Agent) {
    apply(agent, Watched::ALWAYS.map(Watched::empty));
    assert!(agent.state.is_synced());
}
