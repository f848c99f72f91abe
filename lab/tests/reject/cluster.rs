//! The cluster of the tests about intents, rejecting.

use std::net::SocketAddr;
use std::time::Duration;

use crate::aim::Denied;
use crate::world::{Plan, World};
use epguard_common::{Action, AnswerLimits, Mode, Outcome as Counted, ReasonActions};
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::{Call, Client, Outcome};

/// What a client saw, and the median of the time until it did.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) median: Duration,
}

/// Rejects whatever is denied, without a limit that these tests could reach.
pub(crate) fn reject(world: &mut World) {
    choose(world, Action::Reject);
    world.hooks.set_mode(Mode::Enforce);
}

/// Drops whatever is denied.
pub(crate) fn drop_all(world: &mut World) {
    choose(world, Action::Drop);
    world.hooks.set_mode(Mode::Enforce);
}

fn choose(world: &mut World, action: Action) {
    let actions = ReasonActions {
        dead_backend: action,
        reused: action,
        retired_backend: action,
        terminated: action,
    };
    let limits = AnswerLimits {
        per_suspect: 1_000_000,
        per_node: 1_000_000,
    };
    world.hooks.writer.choose(actions, limits).unwrap();
}

/// The cluster of a plan, rejecting.
pub(crate) fn rejecting(plan: Plan) -> World {
    let mut world = World::new(plan);
    reject(&mut world);
    world
}

/// Where this client reaches the denied Service: hosts outside of `node-a` by its node port.
pub(crate) fn service(world: &World, client: &str) -> SocketAddr {
    match client {
        "node-b" | "external" => world.node_port(Denied),
        _ => world.address(Denied),
    }
}

/// Makes so many calls one after another.
pub(crate) fn calls(
    world: &World,
    client: &str,
    protocol: Protocol,
    to: SocketAddr,
    count: usize,
    timeout: Duration,
) -> Seen {
    let client = Client::new(world.netns(client));
    let call = Call {
        protocol,
        to,
        from: None,
        timeout,
    };
    let mut answers: Vec<_> = (0..count).map(|_| client.call(call)).collect();
    answers.sort_by_key(|answer| answer.latency);
    let median = answers[count / 2].latency;
    let mut outcomes: Vec<Outcome> = answers.into_iter().map(|answer| answer.outcome).collect();
    outcomes.dedup();
    Seen { outcomes, median }
}

/// Packets that were answered so far.
pub(crate) fn rejected(world: &World) -> u64 {
    world.hooks.packets(&[Counted::Rejected])
}

/// What went wrong in a host's stack so far: wrong checksums received, and packets that conntrack could not place.
pub(crate) fn faults(world: &World, host: &str) -> Vec<(String, u64)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let files = ["snmp", "snmp6", "stat/nf_conntrack"];
    let [v4, v6, tracked] = world
        .netns(host)
        .run(|| files.map(|file| read(&format!("/proc/thread-self/net/{file}"))))
        .unwrap();
    let mut faults = Vec::new();
    let lines: Vec<&str> = v4.lines().collect();
    for pair in lines.chunks(2) {
        let names = pair[0].split_whitespace();
        for (name, value) in names.zip(pair[1].split_whitespace()) {
            if name.contains("CsumErrors") {
                faults.push((
                    format!("{} {name}", pair[0].split(':').next().unwrap()),
                    value.parse().unwrap(),
                ));
            }
        }
    }
    for line in v6.lines().filter(|line| line.contains("CsumErrors")) {
        let (name, value) = line.split_once(char::is_whitespace).unwrap();
        faults.push((name.to_owned(), value.trim().parse().unwrap()));
    }
    let mut rows = tracked.lines().map(str::split_whitespace);
    let column = rows.next().unwrap().position(|name| name == "invalid").unwrap();
    let invalid = rows.map(|mut row| u64::from_str_radix(row.nth(column).unwrap(), 16).unwrap());
    faults.push(("conntrack invalid".to_owned(), invalid.sum()));
    faults
}
