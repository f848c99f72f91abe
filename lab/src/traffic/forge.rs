//! TCP packets that no connection sends: with any source address, as a process with `CAP_NET_RAW`
//! sends them, or SYNs at a fixed rate.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, Result};
use epguard_common::{Addr, Sum};
use socket2::{Domain, Protocol, Socket, Type};

use super::Client;
use crate::process::pin_to_processor;

/// The protocol number in an IP header.
pub(super) const TCP: u8 = 6;
/// Octets of a header.
pub(super) const LENGTH: u8 = 20;

/// A forged TCP packet without data.
#[derive(Clone, Copy, Debug)]
pub struct Forged {
    /// The source address in the packet.
    pub from: SocketAddrV4,
    /// The destination.
    pub to: SocketAddrV4,
    /// TCP flags: 2 is SYN, 16 is ACK.
    pub flags: u8,
    /// Acknowledgement number.
    pub acknowledges: u32,
}

impl Client {
    /// Sends forged packets, one after the other. Needs root.
    pub fn forge(&self, packets: impl IntoIterator<Item = Forged> + Send) -> Result<()> {
        let sent = self.netns.io(|| send(packets));
        sent.with_context(|| format!("cannot forge packets in {}", self.netns.name()))
    }
}

fn send(packets: impl IntoIterator<Item = Forged>) -> io::Result<()> {
    // The kernel fills in the header's length, number and checksum (raw(7)).
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW)))?;
    for packet in packets {
        socket.send_to(&octets(packet), &packet.to.into())?;
    }
    Ok(())
}

/// `IPPROTO_RAW`.
const RAW: i32 = 255;

fn octets(packet: Forged) -> Vec<u8> {
    let ends = [packet.from, packet.to];
    let header = header(ends.map(Into::into), [1, packet.acknowledges], packet.flags);
    let mut octets = vec![0x45, 0, 0, 20 + LENGTH, 0, 0, 0, 0, 64, TCP, 0, 0];
    octets.extend(ends.map(|end| end.ip().octets()).as_flattened());
    octets.extend(header.as_flattened());
    octets
}

/// A header without options and its checksum (RFC 9293 section 3.1), in network order. The octets
/// before an IPv4 address in an [`Addr`] add nothing to a checksum.
pub(super) fn header(
    [from, to]: [SocketAddr; 2],
    [sequence, acknowledged]: [u32; 2],
    flags: u8,
) -> [[u8; 4]; 5] {
    /// The length of the header in words, and the window.
    const OFFSET_AND_WINDOW: u32 = 0x5000_ffff;
    let ports = u32::from(from.port()) << 16 | u32::from(to.port());
    let flags = OFFSET_AND_WINDOW | u32::from(flags) << 16;
    let mut header = [ports, sequence, acknowledged, flags, 0].map(u32::to_be);
    let pseudo = Sum::new()
        .with(Addr::from(from.ip()).words())
        .with(Addr::from(to.ip()).words())
        .with([LENGTH, TCP].map(|number| u32::from(number).to_be()));
    let [low, high] = pseudo.with(header).checksum().to_ne_bytes();
    header[4] = u32::from_ne_bytes([low, high, 0, 0]);
    header.map(u32::to_ne_bytes)
}

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
    /// Sends a flood and returns how long that took. All of it leaves from one CPU, so that a node
    /// on the same machine receives one packet after the other. Needs root.
    pub fn flood(&self, flood: Flood) -> Result<Duration> {
        let sent = self.netns.io(|| pour(flood));
        sent.with_context(|| format!("cannot flood {} from {}", flood.to, self.netns.name()))
    }
}

fn pour(flood: Flood) -> io::Result<Duration> {
    const PAUSE: Duration = Duration::from_millis(1);
    pin_to_processor()?;
    let socket = Socket::new(
        Domain::for_address(flood.to),
        Type::RAW,
        Some(Protocol::TCP),
    )?;
    socket.connect(&SocketAddr::new(flood.to.ip(), 0).into())?;
    let local = socket.local_addr()?.as_socket();
    let from = local.ok_or(io::ErrorKind::AddrNotAvailable)?.ip();
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

/// The header of the SYN with this number.
fn syn(from: IpAddr, to: SocketAddr, number: u32) -> [[u8; 4]; 5] {
    const SYN: u8 = 2;
    const FIRST: u16 = 1024;
    let port = u16::try_from(number % u32::from(u16::MAX - FIRST + 1)).unwrap_or_default();
    let from = SocketAddr::new(from, FIRST + port);
    header([from, to], [number, 0], SYN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected checksums are from another program.
    #[test]
    fn the_checksum_covers_the_addresses_of_either_family() {
        let [from, from_v6] = ["10.244.1.2", "fd00:10:244:1::2"].map(|ip| ip.parse().unwrap());
        let header = syn(from, "10.96.0.1:80".parse().unwrap(), 0);
        assert_eq!(
            [header[0], header[4]],
            [[0x04, 0x00, 0, 80], [0x95, 0x3c, 0, 0]]
        );
        let header = syn(from_v6, "[fd00:10:96::1]:80".parse().unwrap(), 7);
        assert_eq!(
            [header[0], header[4]],
            [[0x04, 0x07, 0, 80], [0xae, 0x85, 0, 0]]
        );
    }

    #[test]
    fn source_ports_begin_again_when_there_are_no_more() {
        let from = [10, 244, 1, 2].into();
        let to = "10.96.0.1:80".parse().unwrap();
        assert_eq!(syn(from, to, 64_511)[0], [0xff, 0xff, 0, 80]);
        assert_eq!(syn(from, to, 64_512)[0], [0x04, 0x00, 0, 80]);
    }
}
