//! Many connections, and many bytes on one; a pod floods a redirected Service with SYNs, and other
//! pods' redirected connections go on.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::thread;
use std::time::Duration;

use epguard_common::Outcome;
use epguard_lab::scenario::stage::Stage;
use epguard_lab::traffic::{Client, Flood, Forged};

use super::place::{call, connect, echo, stage, taken};
use crate::stage::{netns, v4, vip};

const CONNECTIONS: usize = 10_000;
const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 1024;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn ten_thousand_connections_all_reach_the_live_endpoint_and_none_another_pod() {
    let stage = stage();
    let live = echo(&stage, "L");
    let stranger = echo(&stage, "B");
    let plain = echo(&stage, "C");
    call_often(&stage, "old/web");
    call_often(&stage, "ok/api");
    assert_eq!(
        [live, stranger, plain].map(|server| taken(&server)),
        [CONNECTIONS, 0, CONNECTIONS]
    );
    let failed = stage
        .counters()
        .unwrap()
        .with_outcome(Outcome::RedirectFailed);
    assert_eq!(failed, 0, "packets that could not be steered");
}

fn call_often(stage: &Stage, service: &str) {
    for number in 0..CONNECTIONS {
        let mut stream = connect(stage, service).unwrap();
        stream.write_all(&number.to_be_bytes()).unwrap();
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, number.to_be_bytes());
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_gibibyte_is_sent_and_returned_byte_for_byte() {
    let stage = stage();
    let live = echo(&stage, "L");
    there_and_back(&connect(&stage, "old/web").unwrap());
    assert_eq!(taken(&live), 1);
}

/// Sends and receives chunks that all differ, so that a swap of two is seen.
fn there_and_back(stream: &TcpStream) {
    let mut receiver = stream.try_clone().unwrap();
    let receiving = thread::spawn(move || {
        let mut got = vec![0; CHUNK];
        for number in 0..CHUNKS {
            receiver.read_exact(&mut got).unwrap();
            assert!(got == chunk(number), "chunk {number} is another one");
        }
        assert_eq!(receiver.read(&mut got).unwrap(), 0, "more than was sent");
    });
    let mut sender = stream;
    for number in 0..CHUNKS {
        sender.write_all(&chunk(number)).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    receiving.join().unwrap();
}

fn chunk(number: usize) -> Vec<u8> {
    (number * 2_654_435_761).to_le_bytes().repeat(CHUNK / 8)
}

const SYNS: u32 = 180_000;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_flood_of_syns_resets_no_other_pods_redirected_connection() {
    survives(|stage| {
        let flood = Flood {
            to: vip(stage, "old/web"),
            per_second: 24_000,
            count: SYNS,
        };
        attacker(stage).flood(flood).unwrap();
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_flood_from_forged_addresses_with_guessed_acknowledgements_resets_no_redirected_connection() {
    survives(|stage| {
        let to = v4(vip(stage, "old/web"));
        // Each client address sends a SYN, and an ACK of a guessed answer.
        let forged = (0..SYNS / 2).flat_map(|number| {
            let [_, a, b, c] = number.to_be_bytes();
            let from = SocketAddrV4::new(Ipv4Addr::new(172, 16 + (a & 15), b, c), 40_000);
            [(2, 0), (16, number)].map(|(flags, acknowledges)| Forged {
                from,
                to,
                flags,
                acknowledges,
            })
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
        let mut tried = 0;
        let mut failed = 0;
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
