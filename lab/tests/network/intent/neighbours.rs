//! Datagrams that wait for the resolution of a neighbour leave later, from another context.

use super::aim::{Aim, Denied, Direct, Figures, Other, in_both_modes, send, send_all};
use super::pods::BRIDGE;
use super::world::{Plan, World};
use epguard_lab::net::TopologyOptions;

const ORDERS: [&[Aim]; 5] = [
    &[Direct, Denied],
    &[Denied, Direct],
    &[Denied, Direct, Other, Denied, Direct],
    &[Direct, Direct, Denied, Denied],
    &[Denied],
];

/// Sends datagrams to a pod X that answers no solicitation until all of them wait.
fn waiting(world: &mut World, from: &str) -> Vec<Figures> {
    let socket = world.socket(from);
    ORDERS
        .iter()
        .flat_map(|aims| {
            in_both_modes(
                world,
                &format!("e: neighbour pending, {from}, {aims:?}"),
                |world| while_deaf(world, || send_all(world, &socket, aims, 64)),
            )
        })
        .collect()
}

fn while_deaf(world: &World, work: impl FnOnce() -> [u64; 3]) -> [u64; 3] {
    world.shell("bank/x", DEAF);
    world.shell("node-a", "ip neigh flush all; ip -6 neigh flush all");
    let aimed = work();
    world.shell("bank/x", "nft delete table netdev deaf");
    aimed
}

const DEAF: &str = "nft 'add table netdev deaf; \
    add chain netdev deaf in { type filter hook ingress device eth0 priority 0; }; \
    add rule netdev deaf in ether type arp drop; \
    add rule netdev deaf in icmpv6 type nd-neighbor-solicit drop'";

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn datagrams_of_pods_keep_their_intent_while_they_wait() {
    for options in [TopologyOptions::default(), BRIDGE] {
        for ipv6 in [false, true] {
            let mut world = World::new(Plan {
                options,
                ipv6,
                ..Plan::default()
            });
            waiting(&mut world, "shop/client")
                .iter()
                .for_each(Figures::all_right);
        }
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn datagrams_of_the_node_that_waited_are_never_taken_for_others() {
    for ipv6 in [false, true] {
        let mut world = World::new(Plan {
            ipv6,
            ..Plan::default()
        });
        waiting(&mut world, "node-a")
            .iter()
            .for_each(Figures::never_wrong);
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_waiting_datagram_gets_no_intent_of_a_later_connect() {
    for ipv6 in [false, true] {
        let mut world = World::new(Plan {
            ipv6,
            ..Plan::default()
        });
        let figures = in_both_modes(&mut world, "e: connected while one waits", |world| {
            let socket = world.socket("node-a");
            while_deaf(world, || {
                send(|| socket.send_to(&[Direct as u8; 64], world.address(Direct)));
                socket.connect(world.address(Denied)).unwrap();
                [0, 0, 1]
            })
        });
        figures.iter().for_each(Figures::never_wrong);
    }
}
