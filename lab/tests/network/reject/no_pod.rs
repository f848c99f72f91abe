//! A Service leads to an IP that no pod has any more: results of clients without epguard, and under reject. If a packet
//! never reaches an interface, the kernel itself answers it, when its search for a neighbour ends.

use std::time::Duration;

use super::cluster::{Seen, calls, calls_of, cases, reject, service, shown};
use super::world::{Plan, World};
use comfy_table::{Table, presets::NOTHING};
use epguard_common::Mode;
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::traffic::{Client, Outcome};

fn clusters() -> Vec<(&'static str, Plan, bool)> {
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
    for (name, plan, reaches_a_hook) in clusters() {
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
