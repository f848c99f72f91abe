//! Processes on the node itself: their packets pass no ingress hook, and conntrack has their entries as those of pods.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use super::figures::{AIMS, Aim, counted, in_both_modes, interleaved, judged_right, send, send_all};
use super::world::{Plan, World, on_both_families};
use socket2::{Domain, Socket, Type};

/// Sends `count` datagrams on a connected socket.
pub(crate) fn connected(world: &World, host: &str, aim: Aim, count: usize) -> [u64; 3] {
    let to = world.address(aim);
    let socket =
        world.netns(host).run(|| Socket::new(Domain::for_address(to), Type::DGRAM, None)).unwrap().unwrap();
    socket.connect(&to.into()).unwrap();
    (0..count).for_each(|_| send(|| socket.send(&[aim as u8; 64])));
    counted(&vec![aim; count])
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn connected_sockets_one_after_another() {
    on_both_families(Plan::default(), |mut world| {
        for aim in AIMS {
            let case = format!("node, connected, {aim:?}");
            judged_right(&mut world, &case, |world| connected(world, "node-a", aim, 500));
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn one_socket_that_is_connected_anew_each_time() {
    on_both_families(Plan::default(), |mut world| {
        let socket = world.socket("node-a");
        judged_right(&mut world, "node, reconnected", |world| {
            let aims = interleaved(600);
            for aim in &aims {
                socket.connect(world.address(*aim)).unwrap();
                send(|| socket.send(&[*aim as u8; 64]));
            }
            counted(&aims)
        });
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_connected_socket_that_also_sends_elsewhere() {
    for first in AIMS {
        on_both_families(Plan::default(), |mut world| {
            let case = format!("node, connected {first:?} and sendto");
            judged_right(&mut world, &case, |world| {
                let socket = world.socket("node-a");
                socket.connect(world.address(first)).unwrap();
                let aims = interleaved(600);
                for aim in &aims {
                    send(|| socket.send(&[first as u8; 64]));
                    send(|| socket.send_to(&[*aim as u8; 64], world.address(*aim)));
                }
                counted(&[aims, vec![first; 600]].concat())
            });
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn several_threads_on_one_socket() {
    on_both_families(Plan::default(), |mut world| {
        let socket = world.socket("node-a");
        // One flow after another: if conntrack begins two at once, they may clash, and the kernel drops one's first packet.
        in_both_modes(&mut world, "flows begin", |world| send_all(world, &socket, &AIMS, 64));
        judged_right(&mut world, "node, 3 threads on one socket", |world| {
            std::thread::scope(|scope| {
                let (world, socket) = (&*world, &socket);
                for aim in AIMS {
                    scope.spawn(move || send_all(world, socket, &vec![aim; 5_000], 64));
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
    let mapped = |aim| match world.address(aim) {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        v6 @ SocketAddr::V6(_) => v6,
    };
    let addresses = AIMS.map(mapped);
    let socket = || {
        let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
        world.netns("node-a").run(|| UdpSocket::bind((any, 0))).unwrap().unwrap()
    };
    let sending = socket();
    let netns = world.netns("node-a").clone();
    let connecting = || netns.run(|| Socket::new(Domain::IPV6, Type::DGRAM, None)).unwrap().unwrap();
    judged_right(&mut world, "node, v4-mapped", |_| {
        let aims = interleaved(100);
        for aim in &aims {
            let socket = connecting();
            socket.connect(&addresses[*aim as usize].into()).unwrap();
            send(|| socket.send(&[*aim as u8; 64]));
        }
        counted(&aims)
    });
    judged_right(&mut world, "node, v4-mapped sendto", |_| {
        let aims = interleaved(600);
        for aim in &aims {
            send(|| sending.send_to(&[*aim as u8; 64], addresses[*aim as usize]));
        }
        counted(&aims)
    });
}
