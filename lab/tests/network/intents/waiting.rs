//! Datagrams that wait for the resolution of a neighbour leave later, from another context.

use super::clients::BRIDGE;
use super::figures::{Aim, Denied, Direct, Other, in_mode, judged_right, send_all};
use super::world::{Plan, World};
use epguard_common::Mode;
use epguard_core::state::Tables;
use epguard_lab::net::TopologyOptions;

const ORDERS: [&[Aim]; 5] = [
    &[Direct, Denied],
    &[Denied, Direct],
    &[Denied, Direct, Other, Denied, Direct],
    &[Direct, Direct, Denied, Denied],
    &[Denied],
];

/// Pod X answers no solicitation during `work`.
fn while_deaf(world: &mut World, work: impl FnOnce(&mut World) -> [u64; 3]) -> [u64; 3] {
    world.shell("bank/x", DEAF);
    world.shell("node-a", "ip neigh flush all; ip -6 neigh flush all");
    let aimed = work(world);
    world.shell("bank/x", "nft delete table netdev deaf");
    aimed
}

const DEAF: &str = "nft 'add table netdev deaf; \
    add chain netdev deaf in { type filter hook ingress device eth0 priority 0; }; \
    add rule netdev deaf in ether type arp drop; \
    add rule netdev deaf in icmpv6 type nd-neighbor-solicit drop'";

/// Each origin, on each kind of network.
fn each(test: impl Fn(World, &str)) {
    for host in ["shop/client", "node-a"] {
        for options in [TopologyOptions::default(), BRIDGE] {
            for ipv6 in [false, true] {
                let plan = Plan { options, ipv6, ..Plan::default() };
                test(World::new(plan), host);
            }
        }
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn datagrams_that_waited_are_judged_each_by_its_own_aim() {
    each(|mut world, host| {
        let socket = world.socket(host);
        for aims in ORDERS {
            let case = format!("neighbour pending, {host}, {aims:?}");
            judged_right(&mut world, &case, |world| {
                while_deaf(world, |world| send_all(world, &socket, aims, 64))
            });
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn datagrams_that_wait_when_the_denial_begins_are_denied_when_they_leave() {
    each(|mut world, host| {
        let socket = world.socket(host);
        let aims = [Denied, Other, Direct, Denied];
        let case = format!("neighbour pending, denied later, {host}");
        let figures = in_mode(&mut world, &case, Mode::Enforce, |world| {
            world.hooks.writer.install(&Tables::default()).unwrap();
            while_deaf(world, |world| {
                let aimed = send_all(world, &socket, &aims, 64);
                world.hooks.writer.install(&world.tables).unwrap();
                aimed
            })
        });
        figures.all_right(world.ipv6);
    });
}
