//! Established connections at the time of the denial.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::cluster::{reject, rejected};
use super::figures::Denied;
use super::world::{Plan, World, on_both_families};
use epguard_common::Mode;

fn connected(world: &mut World, client: &str) -> TcpStream {
    world.hooks.set_mode(Mode::Observe).unwrap();
    let to = world.address(Denied);
    let stream = world.netns(client).run(|| TcpStream::connect(to)).unwrap().unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream.set_write_timeout(Some(Duration::from_mins(1))).unwrap();
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
        let plan = Plan { remote, ..Plan::default() };
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
