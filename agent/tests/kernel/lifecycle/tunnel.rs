//! Tunnel devices: the inner packet is judged where it comes out, and once.

use super::node::{Node, OWN, PEER, ifindex, ip, mac};
use super::orphan_ip::{X, denied_of, vacate};
use epguard::kernel::datapath::{Hooks, Xdp};

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn a_packet_inside_a_tunnel_is_denied_at_the_tunnel_device_and_only_if_it_is_addressed_to_the_node() {
    let node = Node::new();
    let vxlan = |local, remote| {
        [
            format!("link add vx type vxlan id 1 local {local} remote {remote} dstport 8472"),
            "link set vx up".to_owned(),
        ]
    };
    ip(&vxlan(OWN, PEER));
    node.in_peer(|| ip(&vxlan(PEER, OWN)));
    for xdp in [Xdp::Off, Xdp::Driver] {
        let mut datapath = node.load(Hooks::Auto).with_xdp(xdp).unwrap();
        let _writer = (xdp == Xdp::Off).then(|| vacate(&node, &mut datapath));
        for interface in ["pod", "vx"] {
            datapath.hook(ifindex(interface), interface).unwrap();
        }
        datapath.hook_xdp(ifindex("pod"), "pod").unwrap();
        for (station, denied) in [(mac("vx"), 50), ("02:00:00:00:00:99".into(), 0)] {
            let route = [
                format!("route replace {X}/32 dev vx src {PEER}"),
                format!("neighbour replace {X} lladdr {station} dev vx nud permanent"),
            ];
            node.in_peer(|| ip(&route));
            assert_eq!(denied_of(&node, 50), denied, "to {station}, {xdp:?}");
        }
    }
}
