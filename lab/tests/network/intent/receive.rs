//! Receive paths of the kernel: batches, and other CPUs.

use std::net::UdpSocket;

use super::aim::{AIMS, Figures, in_both_modes, interleaved, keep_pace, send};
use super::world::{Plan, World, on_both_families};

impl World {
    /// Turns on GRO, and with it NAPI and receive batches, on the node's links.
    pub(crate) fn merge_on_receive(&self) {
        self.shell(
            "node-a",
            "for link in eth0 $(ls /sys/class/net | grep ^veth); do ethtool -K $link gro on; done",
        );
    }
}

/// Sends datagrams by `NodePort`, fast enough for the kernel to receive several at once.
pub(crate) fn bursts(world: &World, socket: &UdpSocket) -> [u64; 3] {
    let (start, mut aimed) = (world.sink.arrived(), [0; 3]);
    let addresses = AIMS.map(|aim| world.node_port(aim));
    for aim in interleaved(3000) {
        send(|| socket.send_to(&[aim as u8; 64], addresses[aim as usize]));
        aimed[aim as usize] += 1;
        keep_pace(world, start, aimed);
    }
    aimed
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn batches_from_outside_by_node_port() {
    for remote in [false, true] {
        on_both_families(
            Plan {
                remote,
                ..Plan::default()
            },
            |mut world| {
                world.merge_on_receive();
                let socket = world.socket("external");
                for case in ["b: NodePort, receive batches", "b: again"] {
                    let figures = in_both_modes(&mut world, case, |world| bursts(world, &socket));
                    figures.iter().for_each(Figures::all_right);
                }
            },
        );
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn receive_packet_steering_changes_nothing() {
    on_both_families(Plan::default(), |mut world| {
        world.shell(
            "node-a",
            "for cpus in /sys/class/net/*/queues/rx-*/rps_cpus; do echo 3 > $cpus; done",
        );
        for host in ["shop/client", "external"] {
            let socket = world.socket(host);
            let figures = in_both_modes(&mut world, &format!("d: RPS, {host}"), |world| {
                bursts(world, &socket)
            });
            figures.iter().for_each(Figures::all_right);
        }
    });
}
