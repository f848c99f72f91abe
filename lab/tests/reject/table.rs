//! Who gets which error how soon, in every case that the lab can build.

use std::time::Duration;

use crate::cluster::{calls, count_invalid, drop_all, faults, reject, rejected, service};
use crate::world::{Plan, World};
use comfy_table::{Table, presets::NOTHING};
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::{Protocol, ProxyOptions};
use epguard_lab::traffic::Outcome;

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
        (
            "veth, X local, masqueraded",
            plan(Cni::Ptp, Overlay::None, false, true),
        ),
        (
            "veth, X remote, masqueraded",
            plan(Cni::Ptp, Overlay::None, true, true),
        ),
        ("same bridge", plan(Cni::Bridge, Overlay::None, false, false)),
        (
            "same bridge, masqueraded",
            plan(Cni::Bridge, Overlay::None, false, true),
        ),
        ("bridge, X remote", plan(Cni::Bridge, Overlay::None, true, false)),
        (
            "bridge, X over vxlan",
            plan(Cni::Bridge, Overlay::Vxlan, true, false),
        ),
    ]
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn every_client_is_refused_at_once_wherever_the_packet_reaches_a_hook() {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_header(["CLUSTER", "CLIENT", "IP", "PROTOCOL", "DROP", "REJECT", "MEDIAN"]);
    let mut wrong = Vec::new();
    for (name, plan) in clusters() {
        for ipv6 in [false, true] {
            let mut world = World::new(Plan { ipv6, ..plan });
            count_invalid(&world);
            for client in CLIENTS {
                for protocol in [Protocol::Tcp, Protocol::Udp] {
                    let row = row(&mut world, client, protocol);
                    let family = if ipv6 { "v6" } else { "v4" };
                    let protocol = protocol.to_string();
                    table.add_row(
                        [name, client, family, &protocol]
                            .map(str::to_owned)
                            .into_iter()
                            .chain(row.words),
                    );
                    wrong.extend(
                        row.wrong
                            .map(|wrong| format!("{name}, {client}, {family}, {protocol}: {wrong}")),
                    );
                }
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

struct Row {
    /// Seen under drop, under reject, and the time to it.
    words: [String; 3],
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
        let grown = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after);
        Some(format!("{:?}", grown.collect::<Vec<_>>()))
    } else {
        None
    };
    let words = |outcomes: &[Outcome]| {
        outcomes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    Row {
        words: [
            words(&dropped.outcomes),
            words(&seen.outcomes),
            format!("{:.3} ms", seen.median.as_secs_f64() * 1000.0),
        ],
        wrong,
    }
}
