//! The IP that a Service leads to is nobody's any more: what clients see without epguard, and under reject. Packets that
//! never reach an interface are answered by the kernel itself, when its search for a neighbour ends.

use std::time::Duration;

use crate::cluster::{calls, reject, service};
use crate::world::{Plan, World};
use comfy_table::{Table, presets::NOTHING};
use epguard_common::Mode;
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::Outcome;

const CLIENTS: [&str; 3] = ["shop/client", "node-a", "node-b"];

fn clusters() -> Vec<(&'static str, Plan, bool)> {
    let plan = |cni, remote| Plan {
        options: TopologyOptions {
            cni,
            overlay: Overlay::None,
        },
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
    table.load_preset(NOTHING).set_header([
        "CLUSTER", "CLIENT", "IP", "PROTOCOL", "WITHOUT", "AFTER", "REJECT", "AFTER",
    ]);
    let mut wrong = Vec::new();
    for (name, plan, reaches_a_hook) in clusters() {
        for ipv6 in [false, true] {
            let mut world = World::new(Plan { ipv6, ..plan });
            world.lab.remove_pod("bank/x").unwrap();
            for client in CLIENTS {
                for protocol in [Protocol::Tcp, Protocol::Udp] {
                    let to = service(&world, client);
                    world.hooks.set_mode(Mode::Off);
                    let without = calls(&world, client, protocol, to, 1, Duration::from_secs(4));
                    reject(&mut world);
                    let tries = if reaches_a_hook { 5 } else { 1 };
                    let seen = calls(&world, client, protocol, to, tries, Duration::from_secs(4));
                    let row = format!("{name}|{client}|{}|{protocol}", if ipv6 { "v6" } else { "v4" });
                    if reaches_a_hook && seen.outcomes != [Outcome::Refused] {
                        wrong.push(format!("{row}: {:?}", seen.outcomes));
                    }
                    let shown = |seen: &crate::cluster::Seen| {
                        let median = seen.median.as_secs_f64() * 1000.0;
                        [seen.outcomes[0].to_string(), format!("{median:.3} ms")]
                    };
                    let cells = row.split('|').map(str::to_owned);
                    table.add_row(cells.chain(shown(&without)).chain(shown(&seen)));
                }
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
