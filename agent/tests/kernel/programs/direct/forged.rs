//! Packets from an orphan IP: each ends the denial, few prove it wrong.

use super::*;
use std::time::Duration;

/// The node routes it to loopback, which stands for a pod's interface.
const HELD: Addr = Addr::v4([10, 244, 1, 78]);
const FROM: &str = "epguard_from";
const TO: &str = "epguard_to";

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn two_packets_from_where_the_node_routes_the_ip_confirm_a_holder_and_a_burst_does_not() {
    let mut rig = pod_at(Some(Role::Pod));
    for _ in 0..3 {
        assert_eq!(rig.run(FROM, &from(HELD, &[])).action, PASS);
    }
    let burst = entry(&mut rig, HELD);
    assert!(burst.lifted_ns != 0 && burst.holder_ns != 0, "{burst:?}");
    assert_eq!(burst.confirmed_ns, 0, "{burst:?}");
    std::thread::sleep(Duration::from_nanos(Terminated::APART_NS));
    rig.run(FROM, &from(HELD, &[]));
    let later = entry(&mut rig, HELD);
    assert_eq!(later.holder_ns, burst.holder_ns);
    assert!(later.confirmed_ns >= later.holder_ns + Terminated::APART_NS, "{later:?}");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_that_a_pod_or_the_node_can_forge_lifts_and_shows_no_holder() {
    let proxied = to(OWN, of_type(&[], 0x0806, &arp(2, HELD, Addr::v4([10, 244, 1, 1]))));
    let table = [
        ("from another pod's interface", Some(Role::Pod), FROM, from(X, &[]), X),
        ("tagged", Some(Role::Pod), FROM, from(HELD, &[0x8100]), HELD),
        ("tagged twice", Some(Role::Pod), FROM, from(HELD, &[0x88a8, 0x8100]), HELD),
        ("from an uplink", Some(Role::Uplink), FROM, from(HELD, &[]), HELD),
        ("from a bridge", Some(Role::Bridge), FROM, from(HELD, &[]), HELD),
        ("from an unknown interface", None, FROM, from(HELD, &[]), HELD),
        ("ARP, as the node proxies it", Some(Role::Pod), FROM, proxied, HELD),
        ("a RST that the node made", Some(Role::Pod), TO, from(HELD, &[]), HELD),
    ];
    for (name, role, program, frame, ip) in table {
        let mut rig = pod_at(role);
        rig.run(program, &frame);
        let entry = entry(&mut rig, ip);
        assert!(entry.lifted_ns != 0, "{name}: {entry:?}");
        assert_eq!((entry.holder_ns, entry.confirmed_ns), (0, 0), "{name}");
    }
    let mut rig = pod_at(Some(Role::Pod));
    rig.run_xdp(&from(HELD, &[]));
    assert_eq!(entry(&mut rig, HELD).holder_ns, 0, "XDP");
}

/// Loopback, where test runs take place, has this role and is where the node routes HELD.
fn pod_at(role: Option<Role>) -> Rig {
    let mut rig = rig();
    ip("route add 10.244.1.78/32 dev lo");
    rig.put_keyed("TERMINATED", &HELD, nobody());
    rig.put_keyed("INTERFACES", &1u32, role.map(RawRole::from).unwrap_or_default());
    rig.write_view(VIEW);
    rig
}

fn entry(rig: &mut Rig, ip: Addr) -> Terminated {
    rig.get_keyed("TERMINATED", &ip).unwrap()
}

/// A SYN from the IP to one that is no suspect.
fn from(ip: Addr, tags: &[u16]) -> Vec<u8> {
    let mut syn = packet(Addr::v4([10, 244, 2, 9]), TCP, &tcp(PORT, SYN));
    syn[12..16].copy_from_slice(&ip.octets[12..]);
    to(OWN, tagged(tags, &syn))
}
