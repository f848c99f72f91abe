//! Sockets in pods, on hosts outside, and of processes on the node, whose packets pass no ingress
//! hook: every datagram is judged by its own aim, not by its socket's earlier ones.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::ProxyOptions;
use socket2::{Domain, Socket, Type};

use super::figures::{
    AIMS, Aim, counted, in_both_modes, interleaved, judged_right, send, send_all, send_each,
};
use super::world::{Plan, World, on_both_families};

pub(crate) const BRIDGE: TopologyOptions = TopologyOptions {
    cni: Cni::Bridge,
    overlay: Overlay::None,
};

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn one_socket_to_both_services_and_the_pod() {
    let plan = Plan::default();
    let remote = Plan {
        remote: true,
        ..plan
    };
    let masqueraded = Plan {
        proxy: ProxyOptions {
            masquerade_all: true,
        },
        ..plan
    };
    for (host, plan) in [
        ("shop/client", plan),
        (
            "shop/client",
            Plan {
                options: BRIDGE,
                ..plan
            },
        ),
        ("shop/client", remote),
        ("shop/client", masqueraded),
        (
            "shop/client",
            Plan {
                remote: true,
                ..masqueraded
            },
        ),
        ("node-a", plan),
        ("node-a", remote),
    ] {
        on_both_families(plan, |mut world| {
            let socket = world.socket(host);
            let case = format!("one UDP socket of {host}, {plan:?}");
            judged_right(&mut world, &case, |world| {
                send_all(world, &socket, &interleaved(3000))
            });
        });
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
                let figures = in_both_modes(&mut world, "hairpin", |world| {
                    send_all(world, &socket, &aims)
                });
                for figures in figures {
                    let [denied, other, _] = figures.aimed;
                    assert_eq!(
                        (figures.denied, figures.not_denied),
                        (denied, other),
                        "{figures}"
                    );
                    assert_eq!(figures.arrived[1..], figures.aimed[1..], "{figures}");
                }
            },
        );
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_host_outside_by_node_port() {
    for remote in [false, true] {
        on_both_families(
            Plan {
                remote,
                ..Plan::default()
            },
            |mut world| {
                let socket = world.socket("external");
                judged_right(&mut world, "NodePort", |world| {
                    send_each(world, &socket, &interleaved(3000), |aim| {
                        world.node_port(aim)
                    })
                });
            },
        );
    }
}

/// Sends `count` datagrams on a connected socket.
pub(crate) fn connected(world: &World, host: &str, aim: Aim, count: usize) -> [u64; 3] {
    let to = world.address(aim);
    let socket = world
        .netns(host)
        .run(|| Socket::new(Domain::for_address(to), Type::DGRAM, None))
        .unwrap()
        .unwrap();
    socket.connect(&to.into()).unwrap();
    (0..count).for_each(|_| send(|| socket.send(&[aim as u8; 64])));
    counted(&vec![aim; count])
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn sockets_that_are_connected_once_or_anew_each_time_or_that_also_send_elsewhere() {
    on_both_families(Plan::default(), |mut world| {
        for aim in AIMS {
            let case = format!("node, connected, {aim:?}");
            judged_right(&mut world, &case, |world| {
                connected(world, "node-a", aim, 500)
            });
        }
        let socket = world.socket("node-a");
        let aims = interleaved(600);
        judged_right(&mut world, "node, reconnected", |world| {
            for aim in &aims {
                socket.connect(world.address(*aim)).unwrap();
                send(|| socket.send(&[*aim as u8; 64]));
            }
            counted(&aims)
        });
        for first in AIMS {
            let case = format!("node, connected {first:?} and sendto");
            judged_right(&mut world, &case, |world| {
                let socket = world.socket("node-a");
                socket.connect(world.address(first)).unwrap();
                for aim in &aims {
                    send(|| socket.send(&[first as u8; 64]));
                    send(|| socket.send_to(&[*aim as u8; 64], world.address(*aim)));
                }
                counted(&[&aims[..], &vec![first; 600]].concat())
            });
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn several_threads_on_one_socket() {
    on_both_families(Plan::default(), |mut world| {
        let socket = world.socket("node-a");
        // One flow after another: if conntrack begins two at once, they may clash, and the kernel
        // drops one's first packet.
        in_both_modes(&mut world, "flows begin", |world| {
            send_all(world, &socket, &AIMS)
        });
        judged_right(&mut world, "node, 3 threads on one socket", |world| {
            std::thread::scope(|scope| {
                let world = &*world;
                let socket = &socket;
                for aim in AIMS {
                    scope.spawn(move || send_all(world, socket, &vec![aim; 5_000]));
                }
            });
            [5_000; 3]
        });
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn ipv4_through_an_ipv6_socket() {
    let mut world = World::new(Plan::default());
    let addresses = AIMS.map(|aim| match world.address(aim) {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        v6 @ SocketAddr::V6(_) => v6,
    });
    let netns = world.netns("node-a").clone();
    let sending = netns
        .run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))
        .unwrap()
        .unwrap();
    let connecting = || {
        netns
            .run(|| Socket::new(Domain::IPV6, Type::DGRAM, None))
            .unwrap()
            .unwrap()
    };
    judged_right(&mut world, "node, v4-mapped", |_| {
        let aims = interleaved(100);
        for aim in &aims {
            let socket = connecting();
            socket.connect(&addresses[*aim as usize].into()).unwrap();
            send(|| socket.send(&[*aim as u8; 64]));
        }
        counted(&aims)
    });
    judged_right(&mut world, "node, v4-mapped sendto", |world| {
        send_each(world, &sending, &interleaved(600), |aim| {
            addresses[aim as usize]
        })
    });
}
