//! Devices over others, as tunnels and VLANs: a packet is judged where it comes out, and once.

use super::maps::{view, write};
use super::orphan_ip::{X, denied_of, denied_while, vacate};
use super::*;
use crate::packet_socket::Socket;
use crate::programs::frames::{UDP, packet, tagged, udp};
use std::net::Ipv4Addr;

/// Octets of the header.
const ETHERNET: u16 = 14;

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_packet_inside_a_tunnel_is_denied_at_the_tunnel_device_and_only_if_it_is_addressed_to_the_node()
{
    let node = Node::new();
    let vxlan = |local, remote| {
        ip(&format!(
            "link add vx type vxlan id 1 local {local} remote {remote} dstport 8472"
        ));
        ip("link set vx up");
    };
    vxlan(OWN, PEER);
    node.in_peer(|| vxlan(PEER, OWN));
    for xdp in [Xdp::Off, Xdp::Driver] {
        let mut datapath = node.load(Hooks::Auto).with_xdp(xdp).unwrap();
        if xdp == Xdp::Off {
            vacate(&node, &mut datapath)
                .set_role(ifindex("vx"), Some(Role::Tunnel.into()))
                .unwrap();
        }
        for interface in ["pod", "vx"] {
            datapath.hook(ifindex(interface), interface).unwrap();
        }
        datapath.hook_xdp(ifindex("pod"), "pod").unwrap();
        for (station, denied) in [(mac("vx"), 50), ("02:00:00:00:00:99".into(), 0)] {
            node.in_peer(|| {
                ip(&format!("route replace {X}/32 dev vx src {PEER}"));
                ip(&format!(
                    "neighbour replace {X} lladdr {station} dev vx nud permanent"
                ));
            });
            assert_eq!(denied_of(&node, 50), denied, "to {station}, {xdp:?}");
        }
    }
}

#[test]
#[ignore = "needs root: BPF"]
fn the_programs_look_up_roles_once_an_interface_hands_packets_on() {
    let node = Node::new();
    for (role, looked_up) in [
        (Role::Pod, 0),
        (Role::Uplink, 0),
        (Role::Stacked, 1),
        (Role::Pod, 1),
    ] {
        write(&node, |writer| {
            writer.set_role(2, Some(role.into())).unwrap();
        });
        assert_eq!(
            view(&node).get(&0, 0).unwrap().relays,
            looked_up,
            "{role:?}"
        );
    }
}

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn frames_of_a_vlan_are_not_judged_at_the_interface_below_it() {
    let node = Node::new();
    let mut datapath = node.load(Hooks::Auto).with_xdp(Xdp::Driver).unwrap();
    let _writer = vacate(&node, &mut datapath);
    let socket = node.in_peer(|| Socket::open("eth0"));
    let send = |tags: &[u16]| {
        let frame = frame(tags);
        denied_while(&node, 50, || socket.send(&frame, ETHERNET))
    };
    let untagged = &[][..];
    let tagged = &[0x8100][..];
    datapath.hook(ifindex("pod"), "pod").unwrap();
    assert_eq!((send(untagged), send(tagged)), (50, 0), "TC");
    datapath.hook_xdp(ifindex("pod"), "pod").unwrap();
    assert_eq!((send(untagged), send(tagged)), (50, 0), "XDP, then TC");
}

/// A datagram from the peer to X, by way of the node.
fn frame(tags: &[u16]) -> Vec<u8> {
    let mut datagram = packet(Addr::v4(X.octets()), UDP, &udp(9));
    datagram[12..16].copy_from_slice(&PEER.parse::<Ipv4Addr>().unwrap().octets());
    let (words, _) = datagram[..20].as_chunks();
    let sum = words.iter().fold(Sum::new(), |sum, word| {
        sum.with([u32::from_ne_bytes(*word)])
    });
    datagram[10..12].copy_from_slice(&sum.checksum().to_ne_bytes());
    let mut frame = tagged(tags, &datagram);
    for (octet, text) in frame.iter_mut().zip(mac("pod").split(':')) {
        *octet = u8::from_str_radix(text, 16).unwrap();
    }
    frame
}
