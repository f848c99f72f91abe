//! Events and counters: they tell what happened and change nothing.

use crate::frames::{CLIENT4, SYN, TCP, UDP, ipv4, tcp, udp, x4};
use crate::kernel::{DEAD, Kernel, OWNER, PASS, SHOT, SLOT};
use epguard_common::{Addr, Mode, Outcome, Reason, Suspect, UidState};

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_event_tells_who_was_meant_and_who_would_be_hit() {
    let mut kernel = Kernel::denying(x4(), Reason::Reused, UidState::Dead);
    kernel.configure(Mode::Observe);
    let frame = ipv4(TCP, &tcp(8080, SYN));
    assert_eq!(kernel.run("epguard_selftest", &frame).0, PASS);
    kernel.configure(Mode::Enforce);
    assert_eq!(kernel.run("epguard_selftest", &ipv4(UDP, &udp(8080))).0, SHOT);
    let events = kernel.events();
    let [observed, dropped] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((observed.src, observed.src_port), (Addr::v4(CLIENT4), 40_000));
    assert_eq!(
        (observed.dst, observed.dst_port, observed.protocol),
        (x4(), 8080, 6)
    );
    assert_eq!(
        (observed.reason, observed.outcome),
        (Reason::Reused as u32, Outcome::Observed as u32)
    );
    assert_eq!(
        (observed.dead_uid, observed.owner_uid, observed.slot),
        (DEAD, OWNER, SLOT)
    );
    assert_eq!(observed.length as usize, frame.len());
    assert_eq!((dropped.outcome, dropped.protocol), (Outcome::Dropped as u32, 17));
    assert!(dropped.at_ns > observed.at_ns);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn events_beyond_a_suspects_rate_are_counted_and_the_verdict_stands() {
    let mut kernel = Kernel::denying(x4(), Reason::DeadBackend, UidState::Dead);
    let frame = ipv4(TCP, &tcp(8080, SYN));
    let packets = u64::from(epguard_common::Rate::EVENTS_PER_SECOND) + 20;
    for _ in 0..packets {
        assert_eq!(kernel.run("epguard_selftest", &frame).0, SHOT);
    }
    let counted = kernel.counted();
    let of = |outcome| counted.iter().find(|row| row.1 == outcome).map_or(0, |row| row.2);
    assert_eq!(of(Outcome::Dropped), packets);
    let events = kernel.events().len() as u64;
    assert_eq!(events + of(Outcome::EventSuppressed), packets);
    assert!(of(Outcome::EventSuppressed) > 0 && events > 0, "{events} events");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_full_ring_changes_no_verdict() {
    let mut kernel = Kernel::denying(x4(), Reason::DeadBackend, UidState::Dead);
    let frame = ipv4(TCP, &tcp(8080, SYN));
    let room = epguard_common::capacity::EVENTS / (size_of::<epguard_common::Event>() + 8);
    let packets = room + 50;
    for packet in 0..packets {
        if packet % 50 == 0 {
            kernel.suspect(x4(), Suspect::DENIED);
        }
        assert_eq!(kernel.run("epguard_selftest", &frame).0, SHOT);
    }
    let counted = kernel.counted();
    assert!(
        counted.contains(&(Reason::DeadBackend, Outcome::Dropped, packets as u64)),
        "{counted:?}"
    );
    let lost = counted
        .iter()
        .find(|row| row.1 == Outcome::EventLost)
        .map_or(0, |row| row.2);
    assert_eq!(kernel.events().len() as u64 + lost, packets as u64);
    assert!(lost > 0);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_without_intent_is_counted_and_passes_to() {
    let mut kernel = Kernel::denying(x4(), Reason::Reused, UidState::Dead);
    assert_eq!(kernel.run("epguard_to", &ipv4(TCP, &tcp(8080, SYN))).0, PASS);
    assert_eq!(kernel.counted(), [(Reason::Nothing, Outcome::NoIntent, 1)]);
}
