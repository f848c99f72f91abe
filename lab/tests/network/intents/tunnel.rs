//! Over VXLAN: the inner packet is judged, and the outer one has no entry of it.

use super::clients::BRIDGE;
use super::figures::{AIMS, Figures, in_both_modes, interleaved, send_all};
use super::world::{Plan, S, World};
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::programs::deny;
use epguard_lab::proxy::ProxyOptions;

const VXLAN_PORT: u16 = 8472;

/// Also denies the Service the tunnel's far end: an outer packet with the inner one's intent would
/// be denied.
fn with_a_trap(options: TopologyOptions, masquerade_all: bool, ipv6: bool) -> World {
    let mut world = World::new(Plan {
        options,
        proxy: ProxyOptions { masquerade_all },
        ipv6,
        remote: true,
    });
    let far_end = world.lab.node("node-b").unwrap().ip(true);
    deny(&mut world.tables, S, (far_end, VXLAN_PORT).into());
    world.hooks.writer.install(&world.tables).unwrap();
    world
}

/// Each inner packet is judged once. Outer ones go to a suspect, and pass, together with those of
/// neighbour discovery.
fn all_right(figures: &Figures) {
    let [denied, other, direct] = figures.aimed;
    assert_eq!(
        (figures.denied, figures.not_denied),
        (denied, other),
        "{figures}"
    );
    assert_eq!(figures.arrived[1..], figures.aimed[1..], "lost: {figures}");
    let outer = figures.arrived.iter().sum::<u64>();
    assert!(
        figures.no_intent + figures.no_connection >= direct + outer,
        "{figures}"
    );
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn the_outer_packet_of_a_pod_passes() {
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
            let case = format!("vxlan, {cni}");
            let aims = interleaved(3000);
            let figures = in_both_modes(&mut world, &case, |world| send_all(world, &socket, &aims));
            figures.iter().for_each(all_right);
        }
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn the_outer_packet_of_a_nodes_socket_passes() {
    for ipv6 in [false, true] {
        let options = TopologyOptions {
            overlay: Overlay::Vxlan,
            ..BRIDGE
        };
        // Without masquerading the reverse path filter of node-b drops packets from node-a's
        // address through the tunnel.
        let mut world = with_a_trap(options, true, ipv6);
        let unconnected = world.socket("node-a");
        let aims = interleaved(3000);
        let case = "vxlan, a process of the node, sendto";
        let figures = in_both_modes(&mut world, case, |world| {
            send_all(world, &unconnected, &aims)
        });
        figures.iter().for_each(all_right);
        for aim in AIMS {
            let case = format!("vxlan, a process of the node, connected, {aim:?}");
            let figures = in_both_modes(&mut world, &case, |world| {
                super::clients::connected(world, "node-a", aim, 500)
            });
            figures.iter().for_each(all_right);
        }
    }
}
