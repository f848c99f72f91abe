//! Tests of how the loop's body applies messages, with maps in the kernel.

use super::*;
use crate::cli::Cli;
use crate::cli::Command as Verb;
use crate::daemon::report::Names;
use crate::daemon::report::kube_events::{Announce, Announcer};
use crate::fuzz::harness::corpus;
use crate::kernel::datapath::Hooks;
use crate::kernel::maps::open;
use crate::shared::clock::boot;
use crate::shared::status::Cause;
use crate::watch;
use aya::maps::{HashMap, MapData};
use clap::Parser as _;
use epguard_common::{Config, Owner};
use epguard_core::facts::{Change, Object as _, Pod};
use epguard_core::state::Settings;
use hyper::{Request, Response};
use kube::client::Body;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tempfile::{TempDir, tempdir};
use tokio::sync::mpsc;

/// A bpffs of the test's own.
struct Bpffs(TempDir);

impl Bpffs {
    fn mount() -> Self {
        let folder = tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "bpf", "bpf"]).arg(folder.path()).status();
        assert!(mounted.unwrap().success());
        Self(folder)
    }
}

impl Drop for Bpffs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// An agent without a reachable API server and without hooks.
fn agent(folder: &Path) -> Agent {
    let pins = folder.join("epguard");
    let arguments = ["epguard", "agent", "--node-name", "node-a", "--pin-dir"];
    let cli = Cli::parse_from(arguments.into_iter().chain(pins.to_str()));
    let Verb::Agent(args) = cli.command else { panic!("another verb") };
    let pace = Pace::new(1, 1);
    let refused = tower::service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("connection refused"));
    let client = pace.client(kube::Client::new(refused, "default"));
    let mut datapath = Datapath::load(&pins, Hooks::Auto, 0).unwrap();
    let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
    writer.config.lock_in(&pins);
    let settings = Settings { node: args.node_name.clone(), ipam: args.ipam, ranges: args.ranges.ranges() };
    let state = State::new(settings);
    let translators = Translators::new(&Ok(0), folder, &pins);
    let (sender, _) = mpsc::channel(1);
    let watches = watch::start((&client, boot), ("n1", None), &sender);
    let announcer = Announcer::start(client, args.node_name.clone(), Announce::None);
    let node_modes = NodeModes::new(None, (args.mode, args.reasons.modes()), &Config::default());
    let names = Names::load(folder);
    let demotions = Demotions::load(folder, args.on_wrong_deny).unwrap();
    let report = (Report::new(names.unwrap(), announcer), demotions);
    Agent::new(state, writer, report, (datapath, translators), (watches, pace), node_modes, &args)
}

fn said(facts: impl IntoIterator<Item = Fact>) -> Vec<Message> {
    let said = |fact| Message {
        watch: Watched::Pods,
        event: watch::Event::Fact { received: Instant::now(), rv: 1, fact: Box::new(fact) },
    };
    facts.into_iter().map(said).collect()
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn facts_reach_the_maps_without_a_tick() {
    let bpffs = Bpffs::mount();
    let mut agent = agent(bpffs.0.path());
    apply(&mut agent, [Fact::Presence(Presence::Held(vec![]))]);
    sync(&mut agent);
    let owners = || {
        let owners: HashMap<MapData, Addr, Owner> = open(&bpffs.0.path().join("epguard"), "OWNERS").unwrap();
        owners.keys().count()
    };
    assert_eq!(owners(), 0);
    let pods = corpus("pod");
    let pod = pods.iter().map(|json| Pod::parse(json).unwrap());
    let pod = pod.into_iter().find(|pod| !pod.ips.is_empty() && !pod.host_network).unwrap();
    apply(&mut agent, [Fact::Pod(Change::Applied(pod))]);
    assert!(owners() > 0, "the pod's IPs");
}

/// Takes as many turns as the facts need: on a busy machine one turn may end before them.
fn apply(agent: &mut Agent, facts: impl IntoIterator<Item = Fact>) {
    agent.on_messages(said(facts)).unwrap();
    let mut turns = 0..1000;
    while agent.has_backlog() {
        turns.next().expect("all is written after so many");
        agent.run_turn().unwrap();
    }
}

fn sync(agent: &mut Agent) {
    apply(agent, Watched::ALWAYS.map(Watched::empty));
    assert!(agent.state.is_synced());
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn a_report_of_the_node_leaves_a_half_applied_list_as_it_is() {
    let bpffs = Bpffs::mount();
    let mut agent = agent(bpffs.0.path());
    sync(&mut agent);
    let ips = vec![Addr::v4([10, 244, 1, 10])];
    let reports = [
        LinkEvent::Addresses(ips.clone()),
        LinkEvent::Held(Some(ips.clone())),
        LinkEvent::Announced(ips.clone()),
        LinkEvent::Looked(now()),
    ];
    agent.state.begin_fact(now(), Fact::Pod(Change::Reset(vec![Pod::default()])));
    for report in reports {
        agent.on_interface(report).unwrap();
        assert!(agent.state.is_half_applied());
    }
    agent.apply_lift(ips[0], now());
    assert!(agent.state.is_half_applied());
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn the_history_of_an_ip_comes_with_the_causes_of_packets_without_a_service() {
    let bpffs = Bpffs::mount();
    let agent = agent(bpffs.0.path());
    let answer = agent.history_of(std::net::Ipv4Addr::new(10, 244, 1, 10).into());
    let causes: Vec<Cause> = answer.translators.gaps.iter().map(|gap| gap.cause).collect();
    assert_eq!(causes, [Cause::NotLoaded], "the agent has not looked for conntrack yet");
}
