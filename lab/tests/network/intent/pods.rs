//! Clients in pods: every datagram is judged by its own aim, not by its socket's earlier ones.

use super::aim::{Figures, in_both_modes, interleaved, send_all};
use super::world::{Plan, World, on_both_families};
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::ProxyOptions;

pub(crate) const BRIDGE: TopologyOptions = TopologyOptions {
    cni: Cni::Bridge,
    overlay: Overlay::None,
};

/// One socket of a pod, every aim in turn. In IPv4 nothing else goes to pod X, so every counter is exact.
fn one_socket(world: &mut World, case: &str, from: &str) -> [Figures; 2] {
    let socket = world.socket(from);
    let figures = in_both_modes(world, case, |world| {
        send_all(world, &socket, &interleaved(6000), 64)
    });
    for figures in figures {
        figures.all_right();
        assert_eq!(figures.not_denied, figures.aimed[1], "{figures}");
        if !world.ipv6 {
            assert_eq!(figures.no_intent, figures.aimed[2], "{figures}");
        }
    }
    figures
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn one_socket_to_both_services_and_the_pod() {
    for options in [TopologyOptions::default(), BRIDGE] {
        let plan = Plan {
            options,
            ..Plan::default()
        };
        on_both_families(plan, |mut world| {
            one_socket(
                &mut world,
                &format!("a: one UDP socket, {:?}", options.cni),
                "shop/client",
            );
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_backend_on_another_node() {
    on_both_families(
        Plan {
            remote: true,
            ..Plan::default()
        },
        |mut world| {
            one_socket(&mut world, "a: backend on node-b", "shop/client");
        },
    );
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn masqueraded_packets_are_judged_as_well() {
    for remote in [false, true] {
        let proxy = ProxyOptions { masquerade_all: true };
        on_both_families(
            Plan {
                proxy,
                remote,
                ..Plan::default()
            },
            |mut world| {
                one_socket(&mut world, "f: masquerade all", "shop/client");
            },
        );
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_pod_that_reaches_itself_through_services() {
    for options in [TopologyOptions::default(), BRIDGE] {
        on_both_families(
            Plan {
                options,
                ..Plan::default()
            },
            |mut world| {
                let socket = world.socket("bank/x");
                // Packets of a pod to its own address never leave it.
                let aims = interleaved(3000);
                let figures = in_both_modes(&mut world, "k: hairpin", |world| {
                    send_all(world, &socket, &aims, 64)
                });
                for figures in figures {
                    figures.all_right();
                    assert_eq!(figures.not_denied, figures.aimed[1], "{figures}");
                }
            },
        );
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn fragmented_datagrams_are_stopped_by_their_first_fragment() {
    for options in [TopologyOptions::default(), BRIDGE] {
        for remote in [false, true] {
            on_both_families(
                Plan {
                    options,
                    remote,
                    ..Plan::default()
                },
                |mut world| {
                    let socket = world.socket("shop/client");
                    let case = format!("j: fragments, {:?}", options.cni);
                    let figures = in_both_modes(&mut world, &case, |world| {
                        send_all(world, &socket, &interleaved(900), 4000)
                    });
                    for figures in figures {
                        figures.all_right();
                        assert_eq!(figures.not_denied, figures.aimed[1], "{figures}");
                    }
                },
            );
        }
    }
}
