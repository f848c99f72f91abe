//! IPv4 packets with any source address, as a process with `CAP_NET_RAW` sends them.

use std::io;
use std::net::SocketAddrV4;

use anyhow::{Context, Result};
use epguard_common::{Addr, Sum};
use socket2::{Domain, Protocol, Socket, Type};

use super::Client;

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
        let sent = self
            .netns
            .run(|| send(packets))
            .map_err(io::Error::other)
            .flatten();
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
const TCP: u8 = 6;
const TCP_LENGTH: u8 = 20;

fn octets(packet: Forged) -> Vec<u8> {
    let [source, destination] = [packet.from, packet.to].map(|end| end.ip().octets());
    let ports = u32::from(packet.from.port()) << 16 | u32::from(packet.to.port());
    let offset_flags_window = 0x5000_ffff | u32::from(packet.flags) << 16;
    let mut header = [ports, 1, packet.acknowledges, offset_flags_window, 0].map(u32::to_be);
    let pseudo = Sum::new()
        .with(Addr::v4(source).words())
        .with(Addr::v4(destination).words())
        .with([u32::from(TCP_LENGTH).to_be(), u32::from(TCP).to_be()]);
    let [low, high] = pseudo.with(header).checksum().to_ne_bytes();
    header[4] = u32::from_ne_bytes([low, high, 0, 0]);
    let mut octets = vec![0x45, 0, 0, 20 + TCP_LENGTH, 0, 0, 0, 0, 64, TCP, 0, 0];
    octets.extend(source);
    octets.extend(destination);
    octets.extend(header.map(u32::to_ne_bytes).as_flattened());
    octets
}
