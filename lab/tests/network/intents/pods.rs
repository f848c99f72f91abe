//! Clients in pods: every datagram is judged by its own aim, not by its socket's earlier ones.

use super::figures::{AIMS, in_both_modes, interleaved, judged_right, keep_pace, send, send_all};
use super::world::{Plan, World, on_both_families};
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::ProxyOptions;

pub(crate) const BRIDGE: TopologyOptions = TopologyOptions { cni: Cni::Bridge, overlay: Overlay::None };

/// One socket of a pod, every aim in turn.
fn one_socket(world: &mut World, case: &str) {
    let socket = world.socket("shop/client");
    judged_right(world, case, |world| send_all(world, &socket, &interleaved(3000), 64));
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn one_socket_to_both_services_and_the_pod() {
    for options in [TopologyOptions::default(), BRIDGE] {
        let plan = Plan { options, ..Plan::default() };
        on_both_families(plan, |mut world| {
            one_socket(&mut world, &format!("one UDP socket, {}", options.cni));
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_backend_on_another_node() {
    on_both_families(Plan { remote: true, ..Plan::default() }, |mut world| {
        one_socket(&mut world, "backend on node-b");
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn masqueraded_packets_are_judged_as_well() {
    for remote in [false, true] {
        let proxy = ProxyOptions { masquerade_all: true };
        on_both_families(Plan { proxy, remote, ..Plan::default() }, |mut world| {
            one_socket(&mut world, "masquerade all");
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_pod_that_reaches_itself_through_services() {
    for options in [TopologyOptions::default(), BRIDGE] {
        on_both_families(Plan { options, ..Plan::default() }, |mut world| {
            let socket = world.socket("bank/x");
            // Packets of a pod to its own address never leave it.
            let aims = interleaved(3000);
            let figures = in_both_modes(&mut world, "hairpin", |world| send_all(world, &socket, &aims, 64));
            for figures in figures {
                let [denied, other, _] = figures.aimed;
                assert_eq!((figures.denied, figures.not_denied), (denied, other), "{figures}");
                assert_eq!(figures.arrived[1..], figures.aimed[1..], "{figures}");
            }
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_host_outside_by_node_port() {
    for remote in [false, true] {
        on_both_families(Plan { remote, ..Plan::default() }, |mut world| {
            let socket = world.socket("external");
            judged_right(&mut world, "NodePort", |world| {
                let (start, mut aimed) = (world.sink.arrived(), [0; 3]);
                let addresses = AIMS.map(|aim| world.node_port(aim));
                for aim in interleaved(3000) {
                    send(|| socket.send_to(&[aim as u8; 64], addresses[aim as usize]));
                    aimed[aim as usize] += 1;
                    keep_pace(world, start, aimed);
                }
                aimed
            });
        });
    }
}
