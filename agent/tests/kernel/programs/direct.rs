//! Packets aimed at an orphan IP: `terminated`, at TC and in XDP. They enter at loopback, whose MAC is all zero; a
//! blackhole route leads away from the node.

mod answered_early;
mod forged;

use super::frames::{SYN, TCP, UDP, of_type, packet, tagged, tcp, udp};
use super::kernel::ip;
use super::rig::{DROP, PASS, Rig};
use super::world::{DEAD_UID, ENFORCE, FRESH, INNOCENT, PORT};
use epguard_common::Verdict::Clear;
use epguard_common::{Addr, Config, Mac, Mode, Outcome, Reason, Terminated, Uid, Verdict, View};
use nix::sched::{CloneFlags, unshare};

const X: Addr = Addr::v4([10, 244, 1, 77]);
const X6: Addr = Addr::v6([0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77]);
/// No pod holds it, but the node routes it to itself.
const LOCAL: Addr = Addr::v4([127, 0, 0, 77]);
const LOOPBACK: u32 = 1;

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

const TERMINATED: Verdict = Verdict::Deny { reason: Reason::Terminated, enforce: true };
const VIEW: View = View { terminated: 3, suspects: 0, ..FRESH };

/// On a node of the test's own that forwards.
fn rig() -> Rig {
    node(&["link set lo up", "route add blackhole 10.244.1.0/24", "-6 route add blackhole fd00::/16"]);
    let mut rig = Rig::new();
    for addr in [X, X6, LOCAL] {
        rig.put_keyed("TERMINATED", &addr, nobody());
    }
    let mac = Mac { sends: 1, ..Mac::default() };
    rig.put("MACS", &LOOPBACK, mac);
    rig.write_view(VIEW);
    rig
}

/// Gives the test a node of its own that forwards, set up with these commands of `ip`.
pub fn node(commands: &[&str]) {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    for family in ["ipv4", "ipv6"] {
        std::fs::write(format!("/proc/sys/net/{family}/conf/all/forwarding"), "1").unwrap();
    }
    commands.iter().copied().for_each(ip);
}

fn nobody() -> Terminated {
    Terminated { dead_uid: DEAD_UID, mode: Mode::Enforce as u32, ..Terminated::default() }
}

/// A frame as `frames` makes it, addressed to another MAC.
fn to(mac: [u8; 6], mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&mac);
    frame
}

const OWN: [u8; 6] = [0; 6];

fn syn(dst: Addr) -> Vec<u8> {
    packet(dst, TCP, &tcp(PORT, SYN))
}

/// What each of the two programs does with frames, and that they count a denied one once.
#[track_caller]
fn expect_all(rig: &mut Rig, table: &[(&str, Vec<u8>, Verdict)]) {
    for (name, frame, verdict) in table {
        rig.expect(name, frame, *verdict);
        let dropped = *verdict == TERMINATED;
        rig.forget_counters();
        let action = rig.run_xdp(frame);
        assert_eq!(action, if dropped { XDP_DROP } else { XDP_PASS }, "XDP: {name}");
        let counted = dropped.then_some(((Reason::Terminated, Outcome::Dropped), (1, frame.len() as u64)));
        assert_eq!(rig.counters(), counted.into_iter().collect(), "XDP counters: {name}");
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn only_untagged_frames_addressed_to_this_host_are_judged() {
    let mut rig = rig();
    let mut table = Vec::new();
    for dst in [X, X6] {
        let ip = syn(dst);
        table.extend([
            ("to the host", to(OWN, tagged(&[], &ip)), TERMINATED),
            ("to another host", to([2, 0, 0, 0, 0, 1], tagged(&[], &ip)), Clear),
            ("off by one octet", to([0, 0, 0, 0, 0, 1], tagged(&[], &ip)), Clear),
            ("broadcast", to([0xff; 6], tagged(&[], &ip)), Clear),
            ("multicast", to([1, 0, 0x5e, 0, 0, 1], tagged(&[], &ip)), Clear),
            ("802.1Q", to(OWN, tagged(&[0x8100], &ip)), Clear),
            ("802.1ad", to(OWN, tagged(&[0x88a8], &ip)), Clear),
            ("two tags", to(OWN, tagged(&[0x88a8, 0x8100], &ip)), Clear),
        ]);
    }
    expect_all(&mut rig, &table);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn only_packets_to_an_orphan_ip_are_denied() {
    let mut rig = rig();
    let frame = |dst, protocol, body: &[u8]| to(OWN, tagged(&[], &packet(dst, protocol, body)));
    let held = Verdict::Pass(Reason::Terminated, Outcome::Held);
    let table = [
        ("UDP", frame(X, UDP, &udp(PORT)), TERMINATED),
        ("ping", frame(X, 1, &[8, 0, 0, 0]), TERMINATED),
        ("another IP", frame(INNOCENT, TCP, &tcp(PORT, SYN)), Clear),
        ("no IP", to(OWN, of_type(&[], 0x88cc, &syn(X))), Clear),
    ];
    expect_all(&mut rig, &table);
    // XDP leaves what passes to TC, which counts it.
    let local = frame(LOCAL, TCP, &tcp(PORT, SYN));
    rig.expect("to the node itself", &local, held);
    rig.forget_counters();
    assert_eq!(rig.run_xdp(&local), XDP_PASS);
    assert_eq!(rig.counters(), [].into());
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn xdp_leaves_observed_packets_to_tc() {
    let mut rig = rig();
    let frame = to(OWN, tagged(&[], &syn(X)));
    let observe = Config { mode: Mode::Observe, ..ENFORCE };
    rig.configure(observe);
    rig.forget_counters();
    assert_eq!(rig.run_xdp(&frame), XDP_PASS);
    assert_eq!((rig.counters(), rig.events()), ([].into(), vec![]));
    let observed = Verdict::Deny { reason: Reason::Terminated, enforce: false };
    rig.expect("observe", &frame, observed);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn xdp_denies_nothing_at_an_interface_without_a_known_mac() {
    let mut rig = rig();
    let frame = to(OWN, tagged(&[], &syn(X)));
    rig.remove::<u32, Mac>("MACS", &LOOPBACK);
    assert_eq!(rig.run_xdp(&frame), XDP_PASS);
    assert_eq!(rig.run(super::rig::BOTH, &frame).action, DROP);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_from_the_ip_lifts_its_denial_for_every_destination_mac() {
    let arp = |tags: &[u16]| {
        let mut body = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9];
        body.extend(&X.octets[12..]);
        body.extend([0; 6]);
        body.extend([10, 244, 1, 1]);
        to([0xff; 6], of_type(tags, 0x0806, &body))
    };
    let mut rig = rig();
    let frame = to(OWN, tagged(&[], &syn(X)));
    for tags in [&[][..], &[0x8100]] {
        for xdp in [false, true] {
            rig.put_keyed("TERMINATED", &X, nobody());
            assert_eq!(rig.run_xdp(&frame), XDP_DROP);
            rig.events();
            if xdp {
                assert_eq!(rig.run_xdp(&arp(tags)), XDP_PASS);
            } else {
                assert_eq!(rig.run(super::rig::BOTH, &arp(tags)).action, PASS);
            }
            let told: Vec<Uid> = rig.events().iter().map(|event| event.dead_uid).collect();
            assert_eq!(told, [DEAD_UID], "tags {tags:?}, XDP {xdp}");
            assert_eq!(rig.run_xdp(&frame), XDP_PASS);
            assert_eq!(rig.run(super::rig::BOTH, &frame).action, PASS);
        }
    }
}
