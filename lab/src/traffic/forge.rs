//! IPv4 packets with any source address, as a process with `CAP_NET_RAW` sends them.

use std::io;
use std::net::SocketAddrV4;

use anyhow::{Context, Result};
use socket2::{Domain, Protocol, Socket, Type};

use super::{Client, tcp};

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
    let header = tcp::header(ends.map(Into::into), [1, packet.acknowledges], packet.flags);
    let mut octets = vec![0x45, 0, 0, 20 + tcp::LENGTH, 0, 0, 0, 0, 64, tcp::TCP, 0, 0];
    octets.extend(ends.map(|end| end.ip().octets()).as_flattened());
    octets.extend(header.as_flattened());
    octets
}
