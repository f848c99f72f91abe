//! Packets aimed at an orphan IP: `terminated`, at TC and in XDP. They enter at loopback, whose MAC is all zero; a
//! blackhole route leads away from the node. `differential` runs them with tags, to other stations and on other routes.

mod answered_early;
mod forged;

use super::*;
use nix::sched::{CloneFlags, unshare};

const X: Addr = Addr::v4([10, 244, 1, 77]);
const X6: Addr = Addr::v6([0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77]);
const LOOPBACK: u32 = 1;

const VIEW: View = View { terminated: 2, suspects: 0, ..FRESH };

/// On a node of the test's own that forwards.
fn rig() -> Rig {
    node(&["link set lo up", "route add blackhole 10.244.1.0/24", "-6 route add blackhole fd00::/16"]);
    let mut rig = Rig::new();
    for addr in [X, X6] {
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
    let arp = |tags: &[u16]| to([0xff; 6], of_type(tags, 0x0806, &arp(1, X, Addr::v4([10, 244, 1, 1]))));
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
