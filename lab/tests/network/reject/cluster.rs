//! The cluster of the tests about conntrack, with action reject.

use std::net::SocketAddr;
use std::time::Duration;

use super::figures::{Denied, Direct};
use super::world::{World, rules};
use epguard_common::{Action, AnswerLimits, Config, Mode, Outcome as Counted, ReasonActions};
use epguard_lab::proxy::{Protocol, Proxy, ProxyOptions, ServiceRule};
use epguard_lab::traffic::{Call, Client, Outcome};

/// Results of a client's calls, and the median of their durations.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) median: Duration,
}

/// Rejects all denied packets, with limits that these tests never reach.
pub(crate) fn reject(world: &mut World) {
    let limits = AnswerLimits { per_suspect: 1_000_000, per_node: 1_000_000 };
    enforce(world, Action::Reject, limits);
}

/// Drops all denied packets.
pub(crate) fn drop_all(world: &mut World) {
    enforce(world, Action::Drop, AnswerLimits::default());
}

/// Enforces all denials with this action.
pub(crate) fn enforce(world: &mut World, action: Action, limits: AnswerLimits) {
    let actions = ReasonActions::all(action);
    world.hooks.writer.config.change(|config| Config { actions, limits, ..config }).unwrap();
    world.hooks.set_mode(Mode::Enforce).unwrap();
}

/// Removes all endpoints from the proxy's rules.
pub(crate) fn forget_endpoints(world: &World) {
    let without = |service| ServiceRule { backends: Vec::new(), ..service };
    let services = rules(world.ipv6, world.address(Direct).ip());
    let services: Vec<_> = services.into_iter().map(without).collect();
    let proxy = Proxy::new(world.netns("node-a"), ProxyOptions::default());
    proxy.program(&services).unwrap();
}

/// The address at which this client reaches the denied Service: hosts outside of `node-a` use its node port.
pub(crate) fn service(world: &World, client: &str) -> SocketAddr {
    match client {
        "node-b" | "external" => world.node_port(Denied),
        _ => world.address(Denied),
    }
}

/// Makes this many calls, one after another.
pub(crate) fn calls(
    world: &World,
    client: &str,
    protocol: Protocol,
    to: SocketAddr,
    count: usize,
    timeout: Duration,
) -> Seen {
    calls_of(&Client::new(world.netns(client)), protocol, to, count, timeout)
}

/// As [`calls`], usable from any thread.
pub(crate) fn calls_of(
    client: &Client,
    protocol: Protocol,
    to: SocketAddr,
    count: usize,
    timeout: Duration,
) -> Seen {
    let call = Call { protocol, to, from: None, timeout };
    let mut answers: Vec<_> = (0..count).map(|_| client.call(call)).collect();
    answers.sort_by_key(|answer| answer.latency);
    let median = answers[count / 2].latency;
    let mut outcomes: Vec<Outcome> = answers.into_iter().map(|answer| answer.outcome).collect();
    outcomes.dedup();
    Seen { outcomes, median }
}

/// Number of packets answered so far.
pub(crate) fn rejected(world: &World) -> u64 {
    world.hooks.packets(&[Counted::Rejected]).unwrap()
}

/// Makes this many calls, each of which should be refused by one answer, without a fault at `node-a` or the client. The text is what
/// was seen instead.
pub(crate) fn refused(
    world: &World,
    client: &str,
    protocol: Protocol,
    to: SocketAddr,
    count: usize,
) -> (Seen, Option<String>) {
    let faults = || ["node-a", client].map(|host| faults(world, host)).concat();
    let (before, answered) = (faults(), rejected(world));
    let seen = calls(world, client, protocol, to, count, Duration::from_secs(2));
    let (after, answered) = (faults(), rejected(world) - answered);
    let wrong = if seen.outcomes != [Outcome::Refused] {
        Some(format!("{:?}", seen.outcomes))
    } else if answered != count as u64 {
        Some(format!("{answered} answers to {count} packets"))
    } else {
        let grown = before.iter().zip(&after).filter(|(before, after)| before != after);
        (before != after).then(|| format!("{:?}", grown.collect::<Vec<_>>()))
    };
    (seen, wrong)
}

/// Each pair of client and protocol.
pub(crate) fn cases() -> impl Iterator<Item = (&'static str, Protocol)> {
    let clients = ["shop/client", "node-a", "node-b"].into_iter();
    clients.flat_map(|client| [Protocol::Tcp, Protocol::Udp].map(|protocol| (client, protocol)))
}

/// Outcomes and median, for a table.
pub(crate) fn shown(seen: &Seen) -> [String; 2] {
    let outcomes: Vec<String> = seen.outcomes.iter().map(ToString::to_string).collect();
    [outcomes.join(", "), format!("{:.3} ms", seen.median.as_secs_f64() * 1000.0)]
}

/// Makes `node-a` count incoming packets that conntrack cannot place; its own statistics also count packets that it
/// sends.
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
    let listed = nft.args(["-j", "list", "counter", "inet", "watch", "entered"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let mut counters = listed["nftables"].as_array().unwrap().iter();
    counters.find_map(|entry| entry["counter"]["packets"].as_u64()).unwrap()
}

/// Faults of packets that a host received: wrong checksums, and on `node-a` packets that conntrack could not
/// place.
pub(crate) fn faults(world: &World, host: &str) -> Vec<(String, u64)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let files = ["snmp", "snmp6"].map(|file| format!("/proc/thread-self/net/{file}"));
    let [v4, v6] = world.netns(host).run(|| files.map(|file| read(&file))).unwrap();
    let lines: Vec<&str> = v4.lines().collect();
    let pairs = lines.chunks(2).flat_map(|pair| {
        let names = pair[0].split_whitespace().zip(pair[1].split_whitespace());
        names.map(|(name, value)| (format!("{} {name}", &pair[0][..4]), value))
    });
    let values = v6.lines().filter_map(|line| line.split_once(char::is_whitespace));
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
