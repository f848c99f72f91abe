//! The gate ends packets that need no verdict, and no others.

use super::frames::{SRC_V4, SYN, TCP, UDP, frame, packet, tagged, tcp, udp, v4_with, v6_with};
use super::rig::{BOTH, Rig};
use super::world::{DENIED, FRESH, INNOCENT, PORT, REUSED, REUSED_V6, syn};
use epguard_common::{Addr, Gate, View};

const ICMPV6: u8 = 58;

/// Of a bridge or a tunnel, where MACs are random: they may look like the first octets of an IP header.
const LINK_LAYERS: [[u8; 6]; 4] = [
    [0x46, 0, 0, 0x20, 0, 0],
    [0x45, 0, 0, 0, 0, 0],
    [0x62, 0, 0, 0, 0, 4],
    [0x4e, 0, 0xff, 0xff, 0xff, 0xff],
];

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn without_the_table_every_packet_is_judged() {
    let mut rig = Rig::new();
    let none = Gate { valid: 0, ..Gate::EMPTY };
    rig.set("GATE", none);
    rig.expect("no table", &syn(REUSED), DENIED);
    rig.set("GATE", Gate::EMPTY);
    let ran = rig.run(BOTH, &syn(REUSED));
    assert_eq!(ran.action, super::rig::PASS, "an empty table ends every packet");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn redirected_flows_take_no_other_packet_off_the_fast_path() {
    let mut rig = Rig::new();
    rig.write_view(View { flows: 1, ..FRESH });
    let mut is_judged = |change: fn(&mut Gate)| {
        // Without the bit of a suspect, its packets show whether they were judged all the same.
        let mut gate = Gate::EMPTY;
        change(&mut gate);
        rig.set("GATE", gate);
        rig.forget_counters();
        rig.run("epguard_to", &syn(REUSED));
        !rig.counters().is_empty()
    };
    assert!(!is_judged(|_| ()), "no flow goes there, and none comes from there");
    assert!(is_judged(|gate| gate.add(REUSED, Gate::FLOW)));
    assert!(is_judged(|gate| gate.add(Addr::v4(SRC_V4), Gate::FLOW)));
    assert!(is_judged(|gate| gate.valid = Gate::WRITTEN), "the flows are unknown");
}

/// Packets of all shapes to addresses that are suspects, Services, orphan IPs, or none.
fn frames(random: &mut fastrand::Rng) -> Vec<u8> {
    let addr = random
        .choice([REUSED, REUSED_V6, INNOCENT, Addr::v4([10, 244, 9, 9]), Addr::v6([0xfd; 16])])
        .unwrap();
    let (protocol, body) = random
        .choice([(TCP, tcp(PORT, SYN)), (UDP, udp(PORT)), (ICMPV6, vec![136, 0, 0, 0, 0x20, 0, 0, 0])])
        .unwrap();
    let packet = match (addr.is_v4(), random.u8(0..3)) {
        (true, 0) => v4_with(addr, &[1; 8], random.choice([0, 0x2000, 0x2001]).unwrap(), protocol, &body),
        (false, 0) => v6_with(addr, &[(60, &[1, 4, 0, 0, 0, 0, 0])], protocol, &body),
        _ => packet(addr, protocol, &body),
    };
    let mut frame = match random.u8(0..4) {
        0 => tagged(&[0x8100], &packet),
        1 => tagged(&[0x88a8, 0x8100], &packet),
        _ => frame(&packet),
    };
    frame.resize(frame.len().max(80), 0);
    for _ in 0..random.usize(0..3) {
        let at = random.usize(..60);
        frame[at] = random.u8(..);
    }
    frame[..6].copy_from_slice(&random.choice(LINK_LAYERS).unwrap());
    frame
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn packets_end_as_they_do_without_the_gate() {
    let mut rig = Rig::new();
    let table = rig.gate();
    let none = Gate { valid: 0, ..table };
    let mut denied = 0;
    for seed in 0..3_000 {
        let frame = frames(&mut fastrand::Rng::with_seed(seed));
        let mut end = |gate| {
            rig.set("GATE", gate);
            rig.forget_counters();
            rig.events();
            super::world::put_suspects(&mut rig);
            rig.set("GATE", gate);
            let ran = rig.run(BOTH, &frame);
            (ran.action, ran.frame, rig.counters())
        };
        let (with, without) = (end(table), end(none));
        assert_eq!(with, without, "seed {seed}: {frame:02x?}");
        denied += u32::from(with.0 == super::rig::DROP);
    }
    assert!((300..2_700).contains(&denied), "{denied} of 3000 were denied");
}
