//! TCP packets that no connection sends, with any source address, as a process with `CAP_NET_RAW` sends them.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use anyhow::{Context, Result};
use epguard_common::{Addr, Sum};
use socket2::{Domain, Protocol, Socket, Type};

use super::Client;

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

/// A header without options and its checksum (RFC 9293 section 3.1), in network order. The octets before an IPv4 address in an
/// [`Addr`] add nothing to a checksum.
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
