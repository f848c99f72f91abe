//! Packets that leave the node for an orphan IP: `terminated`, at the egress hook and in XDP. They
//! meet the programs at loopback, whose MAC is all zero and which stands for an uplink.
//! `differential` runs them with tags, to other stations and on other routes.

mod answered_early;

use super::*;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use std::net::Ipv4Addr;

const X: Addr = Addr::v4([10, 244, 1, 77]);
const X6: Addr = Addr::v6([0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77]);
const LOOPBACK: u32 = 1;

const VIEW: View = View {
    terminated: 2,
    suspects: 0,
    ..FRESH
};

/// On a node of the test's own that forwards.
fn rig() -> Rig {
    node(&[
        "link set lo up",
        "link add uplink type veth peer name outside",
        "link set uplink up",
        "link set outside up",
        "address add 10.99.0.2/24 dev uplink",
        "-6 address add fd99::2/64 dev uplink nodad",
        "route add 10.244.0.0/16 via 10.99.0.1",
        "-6 route add fd00::/16 via fd99::1",
    ]);
    let mut rig = Rig::new();
    for addr in [X, X6] {
        rig.put_keyed("TERMINATED", &addr, nobody());
    }
    for uplink in [LOOPBACK, if_nametoindex("uplink").unwrap()] {
        rig.put_keyed("INTERFACES", &uplink, RawRole::from(Role::Uplink));
    }
    let mac = Mac {
        sends: 1,
        ..Mac::default()
    };
    rig.put("MACS", &LOOPBACK, mac);
    rig.write_view(VIEW);
    rig.tracked = Some(Tracked::NONE);
    rig.came_in_at = LOOPBACK;
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
    Terminated {
        dead_uid: DEAD_UID,
        mode: Mode::Enforce as u32,
        ..Terminated::default()
    }
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
    let from = |tags: &[u16]| to([0xff; 6], tagged(tags, &packet_from(X)));
    let mut rig = rig();
    let frame = to(OWN, tagged(&[], &syn(X)));
    for tags in [&[][..], &[0x8100]] {
        for xdp in [false, true] {
            rig.put_keyed("TERMINATED", &X, nobody());
            assert_eq!(rig.run_xdp(&frame), XDP_DROP);
            assert_eq!(rig.run(super::rig::BOTH, &frame).action, DROP);
            rig.events();
            if xdp {
                assert_eq!(rig.run_xdp(&from(tags)), XDP_PASS);
            } else {
                assert_eq!(rig.run(super::rig::BOTH, &from(tags)).action, PASS);
            }
            let told: Vec<Uid> = rig.events().iter().map(|event| event.dead_uid).collect();
            assert_eq!(told, [DEAD_UID], "tags {tags:?}, XDP {xdp}");
            assert_eq!(rig.run_xdp(&frame), XDP_PASS);
            assert_eq!(rig.run(super::rig::BOTH, &frame).action, PASS);
        }
    }
}

/// A SYN from the IP to one that is no suspect.
fn packet_from(ip: Addr) -> Vec<u8> {
    let mut syn = packet(Addr::v4([10, 244, 2, 9]), TCP, &tcp(PORT, SYN));
    syn[12..16].copy_from_slice(&ip.octets[12..]);
    syn
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn only_what_leaves_the_node_for_an_orphan_ip_is_denied() {
    let mut rig = rig();
    let ours = to(OWN, tagged(&[], &syn(X)));
    for (role, denied) in [
        (Some(Role::Uplink), true),
        (Some(Role::Tunnel), true),
        (Some(Role::Stacked), true),
        (Some(Role::Pod), false),
        (Some(Role::Bridge), false),
        (Some(Role::Relay), false),
        (None, false),
    ] {
        rig.put_keyed(
            "INTERFACES",
            &LOOPBACK,
            role.map(RawRole::from).unwrap_or_default(),
        );
        let action = if denied { DROP } else { PASS };
        assert_eq!(rig.run(super::rig::BOTH, &ours).action, action, "{role:?}");
    }
    rig.put_keyed("INTERFACES", &LOOPBACK, RawRole::from(Role::Uplink));
    let bridged = to([2, 0, 0, 0, 0, 9], ours);
    assert_eq!(
        rig.run(super::rig::BOTH, &bridged).action,
        PASS,
        "a bridge hands it on to another host"
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_that_a_service_sent_to_an_orphan_ip_is_judged_by_the_service_alone() {
    let mut rig = rig();
    let frame = to(OWN, tagged(&[], &syn(X)));
    let vip = Addr::v4([10, 96, 0, 99]);
    let client = (Addr::v4(SRC_V4), 40_000);
    for (asked, action) in [(X, DROP), (vip, PASS)] {
        rig.tracked = Some(Tracked::translated(client, (asked, PORT), (X, PORT), TCP));
        assert_eq!(
            rig.run(super::rig::BOTH, &frame).action,
            action,
            "{asked:?}"
        );
    }
    rig.tracked = Some(Tracked::NONE);
    assert_eq!(
        rig.run(super::rig::BOTH, &frame).action,
        DROP,
        "no tracker knows it"
    );
}

/// Packets to a process of the node meet no hook: its answer may be the first packet of a
/// connection that is seen.
#[test]
#[ignore = "needs root: loads eBPF programs"]
fn what_a_process_of_the_node_may_answer_passes_where_no_tracker_shows_that_it_called() {
    let mut rig = rig();
    ip(&format!("address add {}/32 dev lo", Ipv4Addr::from(SRC_V4)));
    let client = (Addr::v4(SRC_V4), 40_000);
    let called = Tracked::translated(client, (X, PORT), (X, PORT), TCP);
    for (came_in_at, flags, tracked, action) in [
        (0, SYN, Tracked::NONE, DROP),
        (0, ACK, Tracked::NONE, PASS),
        (0, ACK, called, DROP),
        (LOOPBACK, ACK, Tracked::NONE, DROP),
    ] {
        rig.came_in_at = came_in_at;
        rig.tracked = Some(tracked);
        let frame = to(OWN, tagged(&[], &packet(X, TCP, &tcp(PORT, flags))));
        assert_eq!(
            rig.run(super::rig::BOTH, &frame).action,
            action,
            "{came_in_at} {flags} {tracked:?}"
        );
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_event_names_the_client_before_masquerade() {
    let mut rig = rig();
    rig.tracked = Some(Tracked::translated(
        (Addr::v4([10, 244, 1, 7]), 4_711),
        (X, PORT),
        (X, PORT),
        TCP,
    ));
    rig.run(super::rig::BOTH, &to(OWN, tagged(&[], &syn(X))));
    let clients: Vec<_> = rig
        .events()
        .iter()
        .map(|event| (event.src, event.src_port))
        .collect();
    assert_eq!(clients, [(Addr::v4([10, 244, 1, 7]), 4_711)]);
}
