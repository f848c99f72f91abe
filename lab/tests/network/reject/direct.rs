//! Packets to an orphan IP, and packets that do not lift its denial; connections that are
//! established when the denial begins.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::time::Duration;

use epguard_common::{Mode, Outcome as Counted, Uid};
use epguard_core::state::OrphanIp;

use super::cluster::{all_refused, count_invalid, reject, rejected, service};
use super::figures::{Denied, Direct};
use super::world::{PORT, Plan, World, on_both_families};

/// Makes the address an orphan IP in the datapath.
fn terminated(world: &mut World, ip: IpAddr) {
    let range: IpAddr = match ip {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() | 0xff).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() | u128::from(u64::MAX)).into(),
    };
    let dead = Uid { octets: [0xdd; 16] };
    let vacant = OrphanIp {
        dead,
        mode: Mode::Enforce,
        range: range.into(),
        lifted: None,
    };
    world.tables.terminated.insert(ip.into(), vacant);
    count_invalid(world);
    world.hooks.writer.install(&world.tables).unwrap();
}

/// A pod and a host outside get their answers where their packets came in.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn clients_of_an_orphan_ip_are_refused_and_a_thousand_answers_lift_nothing() {
    on_both_families(Plan::default(), |mut world| {
        world.lab.remove_pod("bank/x").unwrap();
        let ip = world.address(Direct).ip();
        terminated(&mut world, ip);
        reject(&mut world);
        all_refused(
            &world,
            &["shop/client", "node-b"],
            |_| (ip, PORT).into(),
            250,
        );
        assert_eq!(world.hooks.packets(&[Counted::Lifted]).unwrap(), 0);
        assert_eq!(rejected(&world), 1000);
    });
}

/// The answers of the egress hook enter the stack again as if the pod had sent them.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_thousand_answers_to_packets_of_a_service_lift_nothing() {
    let plan = Plan {
        remote: true,
        ..Plan::default()
    };
    on_both_families(plan, |mut world| {
        let ip = world.address(Direct).ip();
        terminated(&mut world, ip);
        reject(&mut world);
        all_refused(
            &world,
            &["shop/client", "node-a"],
            |client| service(&world, client),
            250,
        );
        assert_eq!(world.hooks.packets(&[Counted::Lifted]).unwrap(), 0);
        assert_eq!(rejected(&world), 1000);
        // It is still denied when aimed at directly.
        all_refused(&world, &["shop/client"], |_| (ip, PORT).into(), 3);
    });
}

fn connected(world: &mut World, client: &str) -> TcpStream {
    world.hooks.set_mode(Mode::Observe).unwrap();
    let to = world.address(Denied);
    let stream = world
        .netns(client)
        .run(|| TcpStream::connect(to))
        .unwrap()
        .unwrap();
    stream
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    stream
}

/// Writes until an error comes, or reads it.
fn error_of(stream: &mut TcpStream, octets: &[u8]) -> ErrorKind {
    let written = stream.write_all(octets);
    let error = written.and_then(|()| stream.read(&mut [0; 1])).unwrap_err();
    error.kind()
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn an_established_connection_is_reset_even_during_bulk_transfer() {
    for remote in [false, true] {
        let plan = Plan {
            remote,
            ..Plan::default()
        };
        on_both_families(plan, |mut world| {
            for client in ["shop/client", "node-a"] {
                for size in [1, 4_000_000] {
                    let mut stream = connected(&mut world, client);
                    stream.write_all(b"before").unwrap();
                    reject(&mut world);
                    let before = rejected(&world);
                    let error = error_of(&mut stream, &vec![7; size]);
                    assert!(
                        matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
                        "{client}, {size} octets, remote {remote}: {error}"
                    );
                    assert!(rejected(&world) > before);
                }
            }
        });
    }
}
