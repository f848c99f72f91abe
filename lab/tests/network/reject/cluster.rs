//! The cluster of the tests about conntrack, with action reject.

use std::net::SocketAddr;
use std::time::Duration;

use super::figures::Denied;
use super::world::World;
use crate::net::cluster::PROTOCOLS;
use epguard_common::{Action, AnswerLimits, Config, Mode, Outcome as Counted, ReasonActions};
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::{Client, ClientCall, Outcome};

/// Rejects all denied packets, with limits that these tests never reach.
pub(crate) fn reject(world: &mut World) {
    enforce(
        world,
        Action::Reject,
        AnswerLimits {
            per_suspect: 1_000_000,
            per_node: 1_000_000,
        },
    );
}

/// Enforces all denials with this action.
pub(crate) fn enforce(world: &mut World, action: Action, limits: AnswerLimits) {
    let actions = ReasonActions::all(action);
    world
        .hooks
        .writer
        .config
        .change(|config| Config {
            actions,
            limits,
            ..config
        })
        .unwrap();
    world.hooks.set_mode(Mode::Enforce).unwrap();
}

/// The address at which this client reaches the denied Service: hosts outside of `node-a` use its
/// node port.
pub(crate) fn service(world: &World, client: &str) -> SocketAddr {
    match client {
        "node-b" | "external" => world.node_port(Denied),
        _ => world.address(Denied),
    }
}

/// Makes this many calls, one after another. Returns each outcome once, and prints the median of
/// their durations.
pub(crate) fn calls(
    world: &World,
    client: &str,
    protocol: Protocol,
    to: SocketAddr,
    count: usize,
    timeout: Duration,
) -> Vec<Outcome> {
    let caller = Client::new(world.netns(client));
    let call = ClientCall {
        protocol,
        to,
        from: None,
        timeout,
    };
    let mut answers: Vec<_> = (0..count).map(|_| caller.call(call)).collect();
    answers.sort_by_key(|answer| answer.latency);
    let median = answers[count / 2].latency;
    let mut outcomes: Vec<Outcome> = answers.into_iter().map(|answer| answer.outcome).collect();
    outcomes.dedup();
    println!("{client} to {to}/{protocol:?}: {outcomes:?}, median {median:.2?}");
    outcomes
}

/// Number of packets answered so far.
pub(crate) fn rejected(world: &World) -> u64 {
    world.hooks.packets(&[Counted::Rejected]).unwrap()
}

/// Makes this many calls, each of which should be refused by one answer, without a fault at
/// `node-a` or the client. The text is what was seen instead.
pub(crate) fn wrong(
    world: &World,
    client: &str,
    protocol: Protocol,
    to: SocketAddr,
    count: usize,
) -> Option<String> {
    let faults = || ["node-a", client].map(|host| faults(world, host)).concat();
    let before = faults();
    let answered = rejected(world);
    let outcomes = calls(world, client, protocol, to, count, Duration::from_secs(2));
    let after = faults();
    let answered = rejected(world) - answered;
    if outcomes != [Outcome::Refused] {
        Some(format!("{outcomes:?}"))
    } else if answered != count as u64 {
        Some(format!("{answered} answers to {count} packets"))
    } else {
        let grown = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after);
        (before != after).then(|| format!("{:?}", grown.collect::<Vec<_>>()))
    }
}

/// Asserts that so many calls of each client in each protocol are refused so.
#[track_caller]
pub(crate) fn all_refused(
    world: &World,
    clients: &[&str],
    to: impl Fn(&str) -> SocketAddr,
    count: usize,
) {
    for client in clients {
        for protocol in PROTOCOLS {
            assert_eq!(
                wrong(world, client, protocol, to(client), count),
                None,
                "{client} {protocol:?}"
            );
        }
    }
}

/// Clients with a way of their own through the node.
pub(crate) const CLIENTS: [&str; 3] = ["shop/client", "node-a", "node-b"];

/// Makes `node-a` count incoming packets that conntrack cannot place; its own statistics also count
/// packets that it sends.
pub(crate) fn count_invalid(world: &World) {
    count_entering(world, "node-a", "ct state invalid");
}

/// Makes a host count incoming packets that match.
pub(crate) fn count_entering(world: &World, host: &str, matched: &str) {
    world.shell(
        host,
        &format!(
            "nft 'table inet watch {{ counter entered {{}}; chain entering {{ type filter hook prerouting priority 0; \
             {matched} counter name entered; }}; }}'"
        ),
    );
}

/// The number of packets that [`count_entering`] counted.
pub(crate) fn entered(world: &World, host: &str) -> u64 {
    let mut nft = world.netns(host).command("nft");
    let listed = nft
        .args(["-j", "list", "counter", "inet", "watch", "entered"])
        .output()
        .unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let mut counters = listed["nftables"].as_array().unwrap().iter();
    counters
        .find_map(|entry| entry["counter"]["packets"].as_u64())
        .unwrap()
}

/// Faults of packets that a host received: wrong checksums, and on `node-a` packets that conntrack
/// could not place.
pub(crate) fn faults(world: &World, host: &str) -> Vec<(String, u64)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let files = ["snmp", "snmp6"].map(|file| format!("/proc/thread-self/net/{file}"));
    let [v4, v6] = world
        .netns(host)
        .run(|| files.map(|file| read(&file)))
        .unwrap();
    let lines: Vec<&str> = v4.lines().collect();
    let pairs = lines.chunks(2).flat_map(|pair| {
        let names = pair[0].split_whitespace().zip(pair[1].split_whitespace());
        names.map(|(name, value)| (format!("{} {name}", &pair[0][..4]), value))
    });
    let values = v6
        .lines()
        .filter_map(|line| line.split_once(char::is_whitespace));
    let mut faults: Vec<(String, u64)> = pairs
        .chain(values.map(|(name, value)| (name.to_owned(), value.trim())))
        .filter(|(name, _)| name.contains("CsumErrors"))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect();
    if host == "node-a" {
        faults.push(("conntrack invalid".to_owned(), entered(world, host)));
    }
    faults
}
