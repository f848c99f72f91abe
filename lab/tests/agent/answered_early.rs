//! A RST from the driver hook: the uplink is a tap, and this test reads and writes its frames.

use std::fs;
use std::io::{ErrorKind, Read, Write as _};
use std::time::{Duration, Instant};

use super::world::{World, dead_pod};
use aya::maps::{HashMap, MapData};
use epguard::kernel::maps;
use epguard_common::{Keyed, Outcome, RawRole, Reason, Role, Sum};
use epguard_core::state::IpState;
use socket2::{Domain, Protocol, Socket, Type};

/// Frames a round.
const FRAMES: u16 = 100;
const PATIENCE: Duration = Duration::from_mins(1);
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT: [u8; 4] = [192, 168, 9, 9];
const DEAD: [u8; 4] = [10, 244, 1, 10];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_driver_sends_a_rst_for_each_syn_to_an_orphan_ip() {
    let mut world = World::new("early");
    // Its frames are read and written here, one at a time.
    let mut tap = world.netns.tun("up0", true).unwrap();
    let lines = [
        "link set up0 up",
        "address add 192.168.9.2/24 dev up0",
        "route add default via 192.168.9.1 dev up0",
        "neighbour add 192.168.9.1 lladdr 02:00:00:00:00:01 dev up0",
        "neighbour add 192.168.9.9 lladdr 02:00:00:00:00:01 dev up0",
    ];
    world.netns.ip(&lines).unwrap();
    world
        .netns
        .run(|| fs::write("/proc/sys/net/ipv4/conf/all/forwarding", "1"))
        .unwrap()
        .unwrap();
    world.gets_range("10.244.1.0/24");
    world.store.ensure_namespace("shop").unwrap();
    world.store.apply(dead_pod("a", "10.244.1.10")).unwrap();
    let options = [
        "--uplinks=up0",
        "--pod-interfaces=va",
        "--xdp=driver",
        "--action=reject",
    ];
    world.start(&options);
    world.until("denying", |status| {
        let is_early = status.interfaces.iter().any(|at| at.xdp.is_some());
        status.figures.ips.get(&IpState::Terminated) == Some(&1) && status.lease_ms > 0 && is_early
    });

    leads_out(&mut world, "up0");

    let own = world.netns.mac("up0").unwrap();
    // The sniffer receives every incoming skb before any TC program does.
    let every = Protocol::from(i32::from(0x0003_u16.to_be()));
    let sniffer = || Socket::new(Domain::PACKET, Type::RAW.nonblocking(), Some(every));
    let mut sniffer = world.netns.run(sniffer).unwrap().unwrap();
    for port in 1..=FRAMES {
        tap.write_all(&syn(own, port)).unwrap();
        let rst = next_tcp(&mut tap, PATIENCE).unwrap_or_else(|| {
            let counted = maps::counters(&world.dir.join("bpf/epguard")).unwrap();
            let counted: Vec<_> = counted
                .iter()
                .filter(|(_, count)| count.packets > 0)
                .collect();
            let interfaces = world.status().interfaces;
            panic!("no answer: {counted:?} {interfaces:?} {}", world.log())
        });
        assert_eq!(
            (&rst[..6], &rst[6..12]),
            (&ROUTER[..], &own[..]),
            "back to who sent it"
        );
        assert_eq!((&rst[26..30], &rst[30..34]), (&DEAD[..], &CLIENT[..]));
        assert_eq!(
            &rst[34..38],
            [8080_u16.to_be_bytes(), port.to_be_bytes()].as_flattened()
        );
        assert_eq!(
            rst[42..48],
            [0, 0, 0, 8, 0x50, 0x14],
            "RST and ACK of the SYN's number 7"
        );
    }
    // A packet that only TC can answer, where it leaves, proves that the sniffer works: it comes
    // in, and its RST goes out.
    tap.write_all(&with_option(&syn(own, FRAMES + 1))).unwrap();
    assert!(next_tcp(&mut tap, PATIENCE).is_some(), "{}", world.log());
    let counters = maps::counters(&world.dir.join("bpf/epguard")).unwrap();
    let rejected = counters[&(Reason::Terminated, Outcome::Rejected)].packets;
    let received = std::iter::from_fn(|| next_tcp(&mut sniffer, Duration::ZERO)).count();
    println!(
        "{FRAMES} SYNs and one with an IP option, {rejected} rejected; the stack has seen {received} frames"
    );
    assert_eq!((rejected, received), (u64::from(FRAMES) + 1, 2));
}

/// Takes the interface for one that leads out of the node, once the agent has written what it knows
/// of it. The agent does not: a pod could be behind a tap.
fn leads_out(world: &mut World, interface: &str) {
    let index = world
        .netns
        .run(|| nix::net::if_::if_nametoindex(interface))
        .unwrap()
        .unwrap();
    let pins = world.dir.join("bpf/epguard");
    let interfaces = maps::open(&pins, "INTERFACES");
    let mut interfaces: HashMap<MapData, u32, Keyed<u32, RawRole>> = interfaces.unwrap();
    world.until("the interface is known", |_| {
        interfaces
            .get(&index, 0)
            .is_ok_and(|entry| entry.value.has(RawRole::TAKES_ANSWERS))
    });
    let number = Role::Uplink as u32 | RawRole::TAKES_ANSWERS;
    interfaces
        .insert(index, Keyed::new(index, RawRole { number }), 0)
        .unwrap();
}

/// A SYN from the client, by the router, to port 8080 of the dead pod; sequence number 7. XDP
/// verifies no checksum.
fn syn(own: [u8; 6], port: u16) -> Vec<u8> {
    let mut frame = [own, ROUTER].concat();
    frame.extend([0x08, 0x00, 0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0]);
    frame.extend([CLIENT, DEAD].concat());
    frame.extend([port.to_be_bytes(), 8080_u16.to_be_bytes()].concat());
    frame.extend([0, 0, 0, 7, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
    frame
}

/// The same with one word of IP options.
fn with_option(syn: &[u8]) -> Vec<u8> {
    let (head, segment) = syn.split_at(34);
    let mut frame = [head, &[1; 4], segment].concat();
    (frame[14], frame[17]) = (0x46, 44);
    // The stack forwards no packet whose header has another checksum.
    let mut sum = Sum::new();
    for word in frame[14..38].as_chunks::<4>().0 {
        sum = sum.with([u32::from_ne_bytes(*word)]);
    }
    frame[24..26].copy_from_slice(&sum.checksum().to_ne_bytes());
    frame
}

/// The next TCP frame. Other frames come too: router solicitations, ARP.
fn next_tcp(from: &mut impl Read, patience: Duration) -> Option<Vec<u8>> {
    let deadline = Instant::now() + patience;
    let mut frame = vec![0; 2048];
    loop {
        match from.read(&mut frame) {
            Ok(length) if frame[12..14] == [8, 0] && frame[23] == 6 => {
                return Some(frame[..length].to_vec());
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_micros(50));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("{error}"),
        }
    }
}
