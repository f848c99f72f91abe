//! TCP: connections to the denied Service never open, all others carry every octet.

use super::clients::BRIDGE;
use super::figures::{AIMS, Aim, Denied, Direct, Other};
use super::world::{Plan, S, T, World, on_both_families, summary};
use epguard_common::Mode;
use epguard_lab::net::TopologyOptions;
use epguard_lab::programs::deny;
use epguard_lab::proxy::ProxyOptions;
use epguard_lab::traffic::abort;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Sends `length` octets from a source port and closes; returns whether pod X got all of them.
pub(crate) fn stream(world: &World, host: &str, port: u16, to: SocketAddr, length: usize) -> bool {
    let from = match to {
        SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], port)),
        SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], port)),
    };
    let open = || -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&from.into())?;
        let connected = socket.connect_timeout(&to.into(), Duration::from_millis(500));
        // A repeated SYN would be counted for the next connection.
        connected.inspect_err(|_| abort(&socket))?;
        Ok(socket.into())
    };
    let Ok(mut stream) = world.netns(host).run(open).unwrap() else {
        return false;
    };
    let octets: Vec<u8> = (0..length)
        .map(|at| ((at * 31) >> 3).to_le_bytes()[0])
        .collect();
    let mut answer = Vec::new();
    stream
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let exchanged = stream
        .write_all(&octets)
        .and_then(|()| stream.shutdown(Shutdown::Write))
        .and_then(|()| stream.read_to_end(&mut answer));
    exchanged.is_ok() && answer == summary(&octets)
}

/// Connects to each aim from one source port, twice in both modes; every packet of each is judged
/// alike.
fn each(
    world: &mut World,
    case: &str,
    host: &str,
    address: fn(&World, Aim) -> SocketAddr,
    length: usize,
) {
    for mode in [Mode::Observe, Mode::Enforce] {
        world.hooks.set_mode(mode).unwrap();
        let rounds = [(45_000, AIMS), (46_000, [Other, Denied, Direct])];
        for (port, aim) in rounds
            .into_iter()
            .flat_map(|(port, aims)| aims.map(|aim| (port + mode as u16, aim)))
        {
            let before = world.figures();
            let arrived = stream(world, host, port, address(world, aim), length);
            let seen = world.figures().since(&before);
            println!(
                "{case}, {host}, IPv6 {} {mode:?} {aim:?}: arrived {arrived}, {seen}",
                world.ipv6
            );
            assert_eq!(arrived, aim != Denied || mode == Mode::Observe);
            let counted = [seen.denied, seen.not_denied, seen.no_intent].map(|packets| packets > 0);
            assert_eq!(counted, [aim == Denied, aim == Other, aim == Direct]);
        }
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn connections_from_one_source_port() {
    for options in [TopologyOptions::default(), BRIDGE] {
        for masquerade_all in [false, true] {
            let proxy = ProxyOptions { masquerade_all };
            on_both_families(
                Plan {
                    options,
                    proxy,
                    ..Plan::default()
                },
                |mut world| {
                    each(&mut world, "TCP", "shop/client", World::address, 100);
                    each(&mut world, "TCP", "node-a", World::address, 100);
                    each(
                        &mut world,
                        "TCP NodePort",
                        "external",
                        World::node_port,
                        100,
                    );
                },
            );
        }
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn megabytes_with_segments_merged_on_receive() {
    on_both_families(Plan::default(), |mut world| {
        // GRO, and with it NAPI, on the node's links.
        world.shell(
            "node-a",
            "for link in eth0 $(ls /sys/class/net | grep ^veth); do ethtool -K $link gro on; done",
        );
        each(
            &mut world,
            "8 MB, GRO",
            "shop/client",
            World::address,
            8 << 20,
        );
        each(
            &mut world,
            "8 MB, GRO",
            "external",
            World::node_port,
            8 << 20,
        );
        each(&mut world, "8 MB", "node-a", World::address, 8 << 20);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn replies_to_a_client_whose_address_and_port_are_a_denied_endpoint_pass() {
    const PORT: u16 = 45_000;
    on_both_families(Plan::default(), |mut world: World| {
        let client = world.lab.pod("shop/client").unwrap().ips[0];
        for service in [S, T] {
            deny(&mut world.tables, service, (client, PORT).into());
        }
        world.hooks.writer.install(&world.tables).unwrap();
        world.hooks.set_mode(Mode::Enforce).unwrap();
        assert!(stream(
            &world,
            "shop/client",
            PORT,
            world.address(Other),
            100_000
        ));
        let figures = world.figures();
        assert_eq!(figures.denied, 0, "{figures}");
        assert!(
            figures.no_intent > 0,
            "the replies go to a suspect: {figures}"
        );
    });
}
