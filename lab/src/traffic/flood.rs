//! SYNs at a fixed rate, without connections.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use epguard_common::{Addr, Sum};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use socket2::{Domain, Protocol, Socket, Type};

use super::Client;

/// A flood to send.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// The destination.
    pub to: SocketAddr,
    /// SYNs a second; after a delay the flood catches up.
    pub per_second: u32,
    /// Number of SYNs, each from another source port while any is unused.
    pub count: u32,
}

impl Client {
    /// Sends a flood and returns how long that took. All of it leaves from one CPU, so that a node on the same machine
    /// receives one packet after the other. Needs root.
    pub fn flood(&self, flood: Flood) -> Result<Duration> {
        let sent = self.netns.run(|| pour(flood)).map_err(io::Error::other).flatten();
        sent.with_context(|| format!("cannot flood {} from {}", flood.to, self.netns.name()))
    }
}

fn pour(flood: Flood) -> io::Result<Duration> {
    const PAUSE: Duration = Duration::from_millis(1);
    let mut here = CpuSet::new();
    here.set(sched_getcpu()?)?;
    sched_setaffinity(Pid::from_raw(0), &here)?;
    let socket = Socket::new(Domain::for_address(flood.to), Type::RAW, Some(Protocol::TCP))?;
    socket.connect(&SocketAddr::new(flood.to.ip(), 0).into())?;
    let local = socket.local_addr()?.as_socket();
    let from = local.ok_or(io::ErrorKind::AddrNotAvailable)?.ip().into();
    let start = Instant::now();
    let mut sent = 0;
    while sent < flood.count {
        let due = start.elapsed().as_secs_f64() * f64::from(flood.per_second);
        while sent < flood.count && f64::from(sent) <= due {
            socket.send(syn(from, flood.to, sent).as_flattened())?;
            sent += 1;
        }
        thread::sleep(PAUSE);
    }
    Ok(start.elapsed())
}

/// The TCP header of a connection's SYN (RFC 9293 section 3.1). The octets before an IPv4 address in an [`Addr`] add
/// nothing to a checksum.
fn syn(from: Addr, to: SocketAddr, number: u32) -> [[u8; 4]; 5] {
    const LENGTH: u32 = 20;
    const TCP: u32 = 6;
    const PORTS: std::ops::RangeInclusive<u32> = 1024..=65535;
    const SYN: u32 = 0x5002_ffff;
    let source = PORTS.start() + number % (PORTS.end() - PORTS.start() + 1);
    let ports = source << 16 | u32::from(to.port());
    let mut header = [ports, number, 0, SYN, 0].map(u32::to_be);
    let pseudo = Sum::new()
        .with(from.words())
        .with(Addr::from(to.ip()).words())
        .with([LENGTH.to_be(), TCP.to_be()]);
    let [low, high] = pseudo.with(header).checksum().to_ne_bytes();
    header[4] = u32::from_ne_bytes([low, high, 0, 0]);
    header.map(u32::to_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected checksums are from another program.
    #[test]
    fn the_checksum_covers_the_addresses_of_either_family() {
        let [from, from_v6] =
            ["10.244.1.2", "fd00:10:244:1::2"].map(|ip| ip.parse::<std::net::IpAddr>().unwrap());
        let header = syn(from.into(), "10.96.0.1:80".parse().unwrap(), 0);
        assert_eq!([header[0], header[4]], [[0x04, 0x00, 0, 80], [0x95, 0x3c, 0, 0]]);
        let header = syn(from_v6.into(), "[fd00:10:96::1]:80".parse().unwrap(), 7);
        assert_eq!([header[0], header[4]], [[0x04, 0x07, 0, 80], [0xae, 0x85, 0, 0]]);
    }

    #[test]
    fn source_ports_begin_again_when_there_are_no_more() {
        let (from, to) = (Addr::v4([10, 244, 1, 2]), "10.96.0.1:80".parse().unwrap());
        assert_eq!(syn(from, to, 64_511)[0], [0xff, 0xff, 0, 80]);
        assert_eq!(syn(from, to, 64_512)[0], [0x04, 0x00, 0, 80]);
    }
}
