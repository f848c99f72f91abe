//! `cargo xtask bench flood`: effect of a SYN flood to a denied Service on the node's other traffic, all rows in one run.
//!
//! A pod calls a live Service over and over, each time on a new connection. Compare the rows with each other, not with
//! another machine's.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[allow(dead_code, reason = "made for tests")]
#[path = "../tests/network/reject/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "made for tests")]
#[path = "../tests/network/intents/figures.rs"]
mod figures;
#[allow(dead_code, reason = "made for tests")]
#[path = "../tests/network/intents/hooks.rs"]
mod hooks;
#[allow(dead_code, reason = "made for tests")]
#[path = "../tests/network/intents/sink.rs"]
mod sink;
#[allow(dead_code, reason = "made for tests")]
#[path = "../tests/network/intents/world.rs"]
mod world;

use comfy_table::{Table, presets::NOTHING};
use epguard_common::{Action, AnswerLimits};
use epguard_lab::net::Topology;
use epguard_lab::proxy::{Frontend, Protocol, Proxy, ProxyOptions, ServiceRule};
use epguard_lab::traffic::{Client, Flood, Port, Server, abort};
use figures::{Denied, Direct};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use world::{PORT, Plan, World, rules};

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(3);
const PER_SECOND: u32 = 20_000;
/// The defaults of `--answers-per-suspect` and `--answers-per-node`.
const LIMITS: AnswerLimits = AnswerLimits {
    per_suspect: 1_000,
    per_node: 10_000,
};

fn main() {
    let (mut world, _live) = cluster();
    let (without, _other) = cluster();
    let World {
        lab: bare,
        hooks,
        sink: _sink,
        ..
    } = without;
    drop(hooks);
    let stale = world.address(Denied);
    let mut rows = [
        ("no flood, without epguard", None, None),
        ("no flood", Some(Action::Drop), None),
        ("flood, without epguard", None, Some(stale)),
        ("flood, dropped", Some(Action::Drop), Some(stale)),
        ("flood, rejected", Some(Action::Reject), Some(stale)),
    ]
    .map(|row| (row, Vec::new(), 0));
    for _ in 0..ROUNDS {
        for ((_, action, flood), times, answers) in &mut rows {
            if let Some(action) = action {
                cluster::enforce(&mut world, *action, LIMITS);
            }
            let lab = if action.is_some() { &world.lab } else { &bare };
            let before = cluster::rejected(&world);
            times.extend(measure(lab, *flood));
            *answers += cluster::rejected(&world) - before;
        }
    }
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_header(["NODE", "REQUESTS/S", "MEDIAN", "99 %", "ANSWERS/S"]);
    let seconds = ROUND.as_secs_f64() * f64::from(u32::try_from(ROUNDS).unwrap());
    table.add_rows(rows.map(|((name, ..), mut times, answers)| {
        times.sort_unstable();
        let per_second = |count: u64| format!("{:.0}", f64::from(u32::try_from(count).unwrap()) / seconds);
        [
            name.to_owned(),
            per_second(times.len() as u64),
            format!("{:.0?}", times[times.len() / 2]),
            format!("{:.0?}", times[times.len() * 99 / 100]),
            per_second(answers),
        ]
    }));
    println!("{PER_SECOND} SYNs a second, {ROUNDS} times {ROUND:?} each\n{table}");
}

/// The cluster of the tests with a live Service, and a pod that calls it.
fn cluster() -> (World, Server) {
    let mut world = World::new(Plan::default());
    for (pod, ip) in [
        ("shop/caller", "10.244.1.4"),
        ("shop/live", live().ip().to_string().as_str()),
    ] {
        let link = world.lab.add_pod("node-a", pod, &[ip.parse().unwrap()]).unwrap();
        let name = link.host_ifname.clone();
        let node = world.netns("node-a").clone();
        let datapath = &mut world.hooks.datapath;
        let hooked = node.run(|| {
            let ifindex = nix::net::if_::if_nametoindex(&*name).unwrap();
            datapath.hook(ifindex, &name).map(drop)
        });
        hooked.unwrap().unwrap();
    }
    let port = Port {
        protocol: Protocol::Tcp,
        port: PORT,
    };
    let server = Server::start(world.netns("shop/live"), "shop/live", &[port]).unwrap();
    let mut services = rules(false, world.address(Direct).ip());
    services.push(ServiceRule {
        name: "shop/live:http".to_owned(),
        protocol: Protocol::Tcp,
        frontends: vec![Frontend::ClusterIp(vip())],
        backends: vec![live()],
        ..ServiceRule::default()
    });
    let proxy = Proxy::new(world.netns("node-a"), ProxyOptions::default());
    proxy.program(&services).unwrap();
    (world, server)
}

fn vip() -> SocketAddr {
    SocketAddr::from(([10, 96, 0, 9], 80))
}

fn live() -> SocketAddr {
    SocketAddr::from(([10, 244, 1, 5], PORT))
}

/// Durations of the requests of a round, beside a flood to this address.
fn measure(lab: &Topology, flood: Option<SocketAddr>) -> Vec<Duration> {
    let caller = lab.netns("shop/caller").unwrap();
    let stale = Client::new(lab.netns("shop/client").unwrap());
    let count = PER_SECOND * u32::try_from(ROUND.as_secs()).unwrap();
    thread::scope(|scope| {
        let flooding = flood.map(|to| {
            let flood = Flood {
                to,
                per_second: PER_SECOND,
                count,
            };
            scope.spawn(move || stale.flood(flood).unwrap())
        });
        let times = caller.run(requests).unwrap();
        flooding.map(|flooding| flooding.join().unwrap());
        times
    })
}

fn requests() -> Vec<Duration> {
    let end = Instant::now() + ROUND;
    let mut times = Vec::new();
    while Instant::now() < end {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(vip()).unwrap();
        stream.write_all(b"1\n").unwrap();
        let mut reply = String::new();
        BufReader::new(&stream).read_line(&mut reply).unwrap();
        assert_eq!(reply, "1 shop/live\n");
        times.push(begun.elapsed());
        abort(&stream);
    }
    times
}
