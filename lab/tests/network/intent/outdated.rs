//! Outdated entries of sockets on the node: the slot was given to another Service, or the socket connected
//! elsewhere.

use std::net::UdpSocket;

use super::aim::{Aim, Denied, Figures, Other, in_both_modes, send};
use super::world::{DENIED_SLOT, OTHER_SLOT, Plan, World, on_both_families};
use epguard::shared::clock::boot_ns;
use epguard_common::Slot;
use epguard_core::state::Tables;

/// Service T's next slot.
const NEXT_SLOT: Slot = Slot { number: 0x8003 };

const COUNT: u64 = 200;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn an_old_socket_gets_no_intent_of_the_service_that_reuses_its_slot() {
    on_both_families(Plan::default(), |mut world| {
        let old = connected(&world, Other);
        let tables = handed_on(&world.tables);
        world.hooks.install(&tables);
        let figures = in_both_modes(&mut world, "i: node, slot handed on", |world| {
            let sockets = [(Other, &old), (Denied, &connected(world, Denied))];
            let mut aimed = [0; 3];
            for (aim, socket) in sockets {
                for _ in 0..COUNT {
                    send(|| socket.send(&[aim as u8; 64]));
                }
                aimed[aim as usize] = COUNT;
            }
            aimed
        });
        figures.iter().for_each(Figures::all_right);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_socket_that_reconnected_during_a_gap_has_no_old_intent() {
    on_both_families(Plan::default(), |mut world| {
        let socket = connected(&world, Denied);
        let elsewhere = world.address(Other);
        world
            .hooks
            .while_nobody_follows_sockets(|| socket.connect(elsewhere).unwrap());
        let figures = in_both_modes(&mut world, "i: node, unnoticed", |_| {
            (0..COUNT).for_each(|_| send(|| socket.send(&[Other as u8; 64])));
            [0, COUNT, 0]
        });
        figures.iter().for_each(Figures::all_right);
    });
}

fn connected(world: &World, aim: Aim) -> UdpSocket {
    let socket = world.socket("node-a");
    socket.connect(world.address(aim)).unwrap();
    socket
}

/// Service S gets the slot that was Service T's.
fn handed_on(tables: &Tables) -> Tables {
    let mut tables = tables.clone();
    for slot in tables.services.values_mut() {
        *slot = if *slot == DENIED_SLOT {
            OTHER_SLOT
        } else {
            NEXT_SLOT
        };
    }
    let denied = std::mem::take(&mut tables.denied).into_iter();
    tables.denied = denied
        .map(|(mut target, mut denial)| {
            target.slot = OTHER_SLOT;
            denial.slot_since_ns = boot_ns();
            (target, denial)
        })
        .collect();
    tables
}
