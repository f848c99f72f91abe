//! A takeover under traffic: every packet arrives, and every packet meets exactly one program.

use super::*;
use epguard::kernel::maps::{self, Writer};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Packets on the way at a time: fewer than a socket's buffer holds.
const WINDOW: u64 = 64;
const TAKEOVERS: usize = 10;

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn no_packet_is_lost_or_judged_twice_while_programs_and_filters_are_replaced() {
    [Hooks::Tcx, Hooks::Clsact]
        .into_iter()
        .for_each(replace_under_traffic);
}

/// The peer is an address that drains: what To counts there is how often it has seen a packet.
fn replace_under_traffic(hooks: Hooks) {
    let node = Node::new();
    let mut datapath = node.load(hooks);
    let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
    writer
        .config
        .configure(Mode::Observe, maps::default_modes(), false)
        .unwrap();
    let peer = Addr::v4(PEER.parse::<std::net::Ipv4Addr>().unwrap().octets());
    let mut tables = Tables::default();
    tables.suspects.insert(
        peer,
        Suspect {
            flags: Suspect::DRAINING,
            ..Suspect::default()
        },
    );
    writer.install(&tables).unwrap();
    datapath.hook(ifindex("pod"), "pod").unwrap();

    let sender = UdpSocket::bind((OWN, 0)).unwrap();
    sender.connect((PEER, 9)).unwrap();
    node.peer
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let over = AtomicBool::new(false);
    let received = AtomicU64::new(0);
    let start = Instant::now();
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            while node.peer.recv(&mut [0; 8]).is_ok() {
                received.fetch_add(1, Ordering::Release);
            }
        });
        let sending = scope.spawn(|| {
            let mut sent = 0;
            while !over.load(Ordering::Acquire) {
                sender.send(b"datagram").unwrap();
                sent += 1;
                let due = Instant::now() + Duration::from_secs(1);
                while sent > received.load(Ordering::Acquire) + WINDOW && Instant::now() < due {
                    std::thread::yield_now();
                }
            }
            sent
        });
        let successors: Vec<Datapath> = (0..TAKEOVERS).map(|_| node.hooked(hooks)).collect();
        over.store(true, Ordering::Release);
        drop(successors);
        sending.join().unwrap()
    });
    let rate = sent * 1000 / u64::try_from(start.elapsed().as_millis()).unwrap();
    println!("{hooks:?}: {TAKEOVERS} takeovers, {sent} packets, about {rate} a second");
    assert!(sent > 10_000, "{sent} packets say little");
    assert_eq!(received.load(Ordering::Acquire), sent);
    assert_eq!(draining(&node), sent);
}

fn draining(node: &Node) -> u64 {
    maps::counters(&node.pins()).unwrap()[&(Reason::Nothing, Outcome::Draining)].packets
}
