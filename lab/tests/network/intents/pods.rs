//! Sockets of clients: every datagram is judged by its own aim, not by its socket's earlier ones.

use super::figures::{AIMS, in_both_modes, interleaved, judged_right, keep_pace, send, send_all};
use super::world::{Plan, on_both_families};
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::ProxyOptions;

pub(crate) const BRIDGE: TopologyOptions = TopologyOptions { cni: Cni::Bridge, overlay: Overlay::None };

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn one_socket_to_both_services_and_the_pod() {
    let plan = Plan::default();
    let remote = Plan { remote: true, ..plan };
    let masqueraded = Plan { proxy: ProxyOptions { masquerade_all: true }, ..plan };
    for (host, plan) in [
        ("shop/client", plan),
        ("shop/client", Plan { options: BRIDGE, ..plan }),
        ("shop/client", remote),
        ("shop/client", masqueraded),
        ("shop/client", Plan { remote: true, ..masqueraded }),
        ("node-a", plan),
        ("node-a", remote),
    ] {
        on_both_families(plan, |mut world| {
            let socket = world.socket(host);
            let case = format!("one UDP socket of {host}, {plan:?}");
            judged_right(&mut world, &case, |world| send_all(world, &socket, &interleaved(3000), 64));
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
