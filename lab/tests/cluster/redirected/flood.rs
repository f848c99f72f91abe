//! A pod floods a redirected Service with SYNs. Other pods' redirected connections go on.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread;
use std::time::Duration;

use super::place::{call, connect, echo, stage};
use crate::stage::{netns, vip};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::traffic::{Client, Flood, Forged};

const SYNS: u32 = 180_000;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_flood_of_syns_resets_no_other_pods_redirected_connection() {
    survives(|stage| {
        let flood = Flood { to: vip(stage, "old/web"), per_second: 24_000, count: SYNS };
        attacker(stage).flood(flood).unwrap();
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_flood_from_forged_addresses_with_guessed_acknowledgements_resets_no_redirected_connection() {
    survives(|stage| {
        let SocketAddr::V4(to) = vip(stage, "old/web") else {
            panic!("the first variant is IPv4");
        };
        // Each client address sends a SYN, and an ACK of a guessed answer.
        let forged = (0..SYNS / 2).flat_map(|number| {
            let [_, a, b, c] = number.to_be_bytes();
            let from = SocketAddrV4::new(Ipv4Addr::new(172, 16 + (a & 15), b, c), 40_000);
            [(2, 0), (16, number)].map(|(flags, acknowledges)| Forged { from, to, flags, acknowledges })
        });
        attacker(stage).forge(forged).unwrap();
    });
}

/// The victim is the pod `client`.
fn survives(flood: impl FnOnce(&Stage) + Send) {
    let stage = stage();
    let _servers = (echo(&stage, "L"), echo(&stage, "B"));
    let mut victim = connect(&stage, "old/web").unwrap();
    call(&mut victim).unwrap();
    let (tried, failed) = thread::scope(|scope| {
        let stage = &stage;
        let flooding = scope.spawn(move || flood(stage));
        let (mut tried, mut failed) = (0, 0);
        while !flooding.is_finished() {
            tried += 1;
            let opened = connect(stage, "old/web").and_then(|mut stream| call(&mut stream));
            failed += u32::from(opened.is_err());
            thread::sleep(Duration::from_millis(20));
        }
        flooding.join().unwrap();
        (tried, failed)
    });
    println!("new connections during the flood: {tried}, failed: {failed}");
    call(&mut victim).unwrap();
    let mut after = connect(&stage, "old/web").unwrap();
    call(&mut after).unwrap();
}

/// Another pod on the same node.
fn attacker(stage: &Stage) -> Client {
    Client::new(netns(stage, "C"))
}
