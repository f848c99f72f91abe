//! The error and the delay of each client, in every case that the lab can build: of a Service that leads to a pod, and of one that leads
//! to an IP that no pod has any more. If such a packet never reaches an interface, the kernel itself answers it, when its search for a
//! neighbour ends.

use std::time::Duration;

use comfy_table::{Table, presets::NOTHING};
use epguard_common::Mode;
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::{Protocol, ProxyOptions};
use epguard_lab::traffic::{Client, Outcome};

use super::cluster::{
    Seen, calls, calls_of, cases, count_invalid, drop_all, forget_endpoints, refused, reject, service, shown,
};
use super::world::{Plan, World};

const HEADER: [&str; 9] =
    ["CLUSTER", "CLIENT", "IP", "PROTOCOL", "DROP", "REJECT", "MEDIAN", "NO ENDPOINTS", "MEDIAN"];

fn clusters() -> Vec<(&'static str, Plan)> {
    let plan = |cni, overlay, remote, masquerade_all| Plan {
        options: TopologyOptions { cni, overlay },
        proxy: ProxyOptions { masquerade_all },
        ipv6: false,
        remote,
    };
    vec![
        ("veth, X local", plan(Cni::Ptp, Overlay::None, false, false)),
        ("veth, X remote", plan(Cni::Ptp, Overlay::None, true, false)),
        ("veth, X over vxlan", plan(Cni::Ptp, Overlay::Vxlan, true, false)),
        ("veth, X local, masqueraded", plan(Cni::Ptp, Overlay::None, false, true)),
        ("veth, X remote, masqueraded", plan(Cni::Ptp, Overlay::None, true, true)),
        ("same bridge", plan(Cni::Bridge, Overlay::None, false, false)),
        ("same bridge, masqueraded", plan(Cni::Bridge, Overlay::None, false, true)),
        ("bridge, X remote", plan(Cni::Bridge, Overlay::None, true, false)),
        ("bridge, X over vxlan", plan(Cni::Bridge, Overlay::Vxlan, true, false)),
    ]
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn every_client_is_refused_at_once_wherever_the_packet_reaches_a_hook() {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(HEADER);
    let mut wrong = Vec::new();
    for (name, plan) in clusters() {
        for ipv6 in [false, true] {
            let mut world = World::new(Plan { ipv6, ..plan });
            count_invalid(&world);
            let rows: Vec<Row> =
                cases().map(|(client, protocol)| row(&mut world, client, protocol)).collect();
            forget_endpoints(&world);
            for (row, (client, protocol)) in rows.into_iter().zip(cases()) {
                let family = if ipv6 { "v6" } else { "v4" };
                let case = [name, client, family, protocol.as_str()].map(str::to_owned);
                wrong.extend(row.wrong.map(|wrong| format!("{case:?}: {wrong}")));
                let alone = shown(&unserved(&world, client, protocol));
                table.add_row(case.into_iter().chain([row.dropped]).chain(row.rejected).chain(alone));
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

struct Row {
    dropped: String,
    rejected: [String; 2],
    wrong: Option<String>,
}

fn row(world: &mut World, client: &str, protocol: Protocol) -> Row {
    const TRIES: usize = 21;
    let to = service(world, client);
    drop_all(world);
    let dropped = calls(world, client, protocol, to, 1, Duration::from_millis(100));
    reject(world);
    let (seen, wrong) = refused(world, client, protocol, to, TRIES);
    let is_seen = dropped.outcomes != [Outcome::TimedOut];
    let wrong = is_seen.then(|| format!("under drop {:?}", dropped.outcomes)).or(wrong);
    let [dropped, _] = shown(&dropped);
    Row { dropped, rejected: shown(&seen), wrong }
}

/// The proxy's own result for a Service without endpoints. Few calls, because the kernel sends at most 50 ICMP errors at
/// once (`icmp_msgs_burst`).
fn unserved(world: &World, client: &str, protocol: Protocol) -> Seen {
    const TRIES: usize = 11;
    let patience = Duration::from_millis(100);
    calls(world, client, protocol, service(world, client), TRIES, patience)
}

fn without_a_pod() -> Vec<(&'static str, Plan, bool)> {
    let plan = |cni, remote| Plan {
        options: TopologyOptions { cni, overlay: Overlay::None },
        remote,
        ..Plan::default()
    };
    vec![
        ("veth, X local", plan(Cni::Ptp, false), true),
        ("veth, X remote", plan(Cni::Ptp, true), true),
        ("same bridge", plan(Cni::Bridge, false), false),
        ("bridge, X remote", plan(Cni::Bridge, true), true),
    ]
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn clients_are_refused_at_once_unless_the_packet_waits_for_a_neighbour() {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_header(["CLUSTER", "CLIENT", "IP", "PROTOCOL", "WITHOUT", "AFTER", "REJECT", "AFTER"]);
    let mut wrong = Vec::new();
    for (name, plan, reaches_a_hook) in without_a_pod() {
        for ipv6 in [false, true] {
            let mut world = World::new(Plan { ipv6, ..plan });
            world.lab.remove_pod("bank/x").unwrap();
            world.hooks.set_mode(Mode::Off).unwrap();
            let without = all_at_once(&world);
            reject(&mut world);
            // Calls that wait for a neighbour run at the same time.
            let rejected = if reaches_a_hook { one_by_one(&world) } else { all_at_once(&world) };
            for ((without, rejected), (client, protocol)) in without.iter().zip(&rejected).zip(cases()) {
                if reaches_a_hook && rejected.outcomes != [Outcome::Refused] {
                    wrong.push(format!("{name}, {client}, IPv6 {ipv6}, {protocol:?}: {rejected:?}"));
                }
                let family = if ipv6 { "v6" } else { "v4" };
                let what = [name, client, family, protocol.as_str()].map(str::to_owned);
                table.add_row(what.into_iter().chain(shown(without)).chain(shown(rejected)));
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const PATIENCE: Duration = Duration::from_secs(4);

fn one_by_one(world: &World) -> Vec<Seen> {
    let seen = |(client, protocol)| calls(world, client, protocol, service(world, client), 5, PATIENCE);
    cases().map(seen).collect()
}

fn all_at_once(world: &World) -> Vec<Seen> {
    let clients: Vec<_> = cases()
        .map(|(client, protocol)| (Client::new(world.netns(client)), protocol, service(world, client)))
        .collect();
    std::thread::scope(|scope| {
        let calling: Vec<_> = clients
            .iter()
            .map(|(client, protocol, to)| scope.spawn(|| calls_of(client, *protocol, *to, 1, PATIENCE)))
            .collect();
        calling.into_iter().map(|call| call.join().unwrap()).collect()
    })
}
