//! The error and the delay of each client, in every case that the lab can build.

use std::time::Duration;

use super::cluster::{
    Seen, calls, count_invalid, drop_all, faults, forget_endpoints, reject, rejected, service,
};
use super::world::{Plan, World};
use comfy_table::{Table, presets::NOTHING};
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::{Protocol, ProxyOptions};
use epguard_lab::traffic::Outcome;

const HEADER: [&str; 9] =
    ["CLUSTER", "CLIENT", "IP", "PROTOCOL", "DROP", "REJECT", "MEDIAN", "NO ENDPOINTS", "MEDIAN"];
const CLIENTS: [&str; 3] = ["shop/client", "node-a", "node-b"];

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

/// Each pair of client and protocol.
fn cases() -> impl Iterator<Item = (&'static str, Protocol)> {
    CLIENTS.into_iter().flat_map(|client| [Protocol::Tcp, Protocol::Udp].map(|protocol| (client, protocol)))
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
    let hosts = ["node-a", client];
    let (before, answered) = (hosts.map(|host| faults(world, host)), rejected(world));
    let seen = calls(world, client, protocol, to, TRIES, Duration::from_secs(2));
    let after = hosts.map(|host| faults(world, host));
    let answered = rejected(world) - answered;
    let wrong = if dropped.outcomes != [Outcome::TimedOut] {
        Some(format!("under drop {:?}", dropped.outcomes))
    } else if seen.outcomes != [Outcome::Refused] {
        Some(format!("{:?}", seen.outcomes))
    } else if answered != TRIES as u64 {
        Some(format!("{answered} answers to {TRIES} packets"))
    } else if before != after {
        let (before, after) = (before.concat(), after.concat());
        let grown = before.iter().zip(&after).filter(|(before, after)| before != after);
        Some(format!("{:?}", grown.collect::<Vec<_>>()))
    } else {
        None
    };
    Row { dropped: words(&dropped.outcomes), rejected: shown(&seen), wrong }
}

/// The proxy's own result for a Service without endpoints. Few calls, because the kernel sends at most 50 ICMP errors at
/// once (`icmp_msgs_burst`).
fn unserved(world: &World, client: &str, protocol: Protocol) -> Seen {
    const TRIES: usize = 11;
    let patience = Duration::from_millis(100);
    calls(world, client, protocol, service(world, client), TRIES, patience)
}

fn shown(seen: &Seen) -> [String; 2] {
    let median = seen.median.as_secs_f64() * 1000.0;
    [words(&seen.outcomes), format!("{median:.3} ms")]
}

fn words(outcomes: &[Outcome]) -> String {
    let words: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
    words.join(", ")
}
