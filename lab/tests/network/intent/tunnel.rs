//! Over VXLAN: the inner packet is judged, the outer one gets no intent.

use super::aim::{AIMS, Figures, in_both_modes, interleaved, send_all};
use super::pods::BRIDGE;
use super::world::{Plan, World, deny, node_ip, suspect};
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::ProxyOptions;

const VXLAN_PORT: u16 = 8472;

/// Also denies the Service the tunnel's far end: an outer packet with the inner one's intent would be denied.
fn with_a_trap(options: TopologyOptions, masquerade_all: bool, ipv6: bool) -> World {
    let mut world = World::new(Plan {
        options,
        proxy: ProxyOptions { masquerade_all },
        ipv6,
        remote: true,
    });
    let far_end = node_ip(&world.lab, "node-b", false);
    suspect(&mut world.tables, far_end);
    deny(&mut world.tables, far_end, VXLAN_PORT, 17);
    world.hooks.install(&world.tables);
    world
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn the_outer_packet_of_a_pod_has_no_intent() {
    for cni in [Cni::Ptp, Cni::Bridge] {
        for ipv6 in [false, true] {
            let mut world = with_a_trap(
                TopologyOptions {
                    cni,
                    overlay: Overlay::Vxlan,
                },
                false,
                ipv6,
            );
            let socket = world.socket("shop/client");
            let case = format!("g: vxlan, {cni:?}");
            let aims = interleaved(3000);
            let figures = in_both_modes(&mut world, &case, |world| send_all(world, &socket, &aims, 64));
            figures.iter().for_each(Figures::all_right);
            let [observed, enforced] = figures;
            // Neighbour discovery through the tunnel adds a few.
            assert!(
                observed.no_intent >= observed.aimed[2] + 3000,
                "each outer packet was seen: {observed}"
            );
            assert!(
                enforced.no_intent >= enforced.aimed[2] + 3000 - enforced.aimed[0],
                "{enforced}"
            );
        }
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn the_outer_packet_of_a_nodes_socket_has_no_intent() {
    for ipv6 in [false, true] {
        let options = TopologyOptions {
            overlay: Overlay::Vxlan,
            ..BRIDGE
        };
        // Without masquerading the reverse path filter of node-b drops packets from node-a's address through the tunnel.
        let mut world = with_a_trap(options, true, ipv6);
        let unconnected = super::sockets::followed(&mut world);
        let aims = interleaved(3000);
        let case = "g: vxlan, a process of the node, sendto";
        let figures = in_both_modes(&mut world, case, |world| send_all(world, &unconnected, &aims, 64));
        figures.iter().for_each(Figures::all_right_but_the_late);
        for aim in AIMS {
            let case = format!("g: vxlan, a process of the node, connected, {aim:?}");
            let figures = in_both_modes(&mut world, &case, |world| {
                super::sockets::connected(world, "node-a", aim, 500)
            });
            figures.iter().for_each(Figures::all_right);
        }
    }
}
