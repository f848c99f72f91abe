//! The first half of the SCTP handshake on raw sockets, since kernels may lack SCTP ones (RFC 9260 section 3): a client sends
//! INIT, a server names itself in the state cookie of its INIT ACK.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::flow::{lost_on_the_way, receive};
use super::{Call, Outcome, message};

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
const STATE_COOKIE: u16 = 7;
/// Octets before the parameters: the common header of 12 octets, then the chunk's header and its fixed fields.
const FIXED: usize = 12 + 4 + 16;

/// A raw socket of one address family, in the calling thread's namespace. The standard library has no type for it, but its
/// UDP socket sends and receives in the same way.
pub(super) fn socket(domain: Domain) -> io::Result<UdpSocket> {
    Ok(Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_SCTP)))?.into())
}

/// Sends an INIT from the calling thread's namespace and waits for the INIT ACK. An ABORT counts as refusal.
pub(super) fn ask(call: Call) -> io::Result<(SocketAddr, Outcome)> {
    let request = message::request();
    // A tag must not be zero; requests are counted from one.
    let tag = u32::try_from(request).map_err(io::Error::other)?;
    let port = call.from.map(|from| from.port()).filter(|port| *port != 0).unwrap_or(ephemeral_port(request));
    let socket = socket(Domain::for_address(call.to))?;
    if let Some(from) = call.from {
        SockRef::from(&socket).bind(&SocketAddr::new(from.ip(), 0).into())?;
    }
    socket.connect(SocketAddr::new(call.to.ip(), 0))?;
    let local = SocketAddr::new(socket.local_addr()?.ip(), port);
    let init = Packet { ports: [port, call.to.port()], tag: 0, chunk: INIT, initiate: tag, cookie: &[] };
    let deadline = Instant::now() + call.timeout;
    let sent = socket.send(&init.encode()).map(drop).or_else(lost_on_the_way);
    let replied = sent.and_then(|()| await_reply(&socket, call.to.is_ipv4(), request, tag, deadline));
    Ok((local, replied.map_or_else(Outcome::from, Outcome::Reply)))
}

fn await_reply(
    socket: &UdpSocket,
    ipv4: bool,
    request: u64,
    tag: u32,
    deadline: Instant,
) -> io::Result<String> {
    let mut buffer = [0; 2048];
    loop {
        let length = receive(socket, &mut buffer, deadline)?;
        match Packet::decode(&buffer[..length], ipv4).filter(|packet| packet.tag == tag) {
            Some(Packet { chunk: ABORT, .. }) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Packet { chunk: INIT_ACK, cookie, .. }) => {
                let name = message::replier(cookie, request);
                return name.ok_or_else(|| io::Error::other("INIT ACK of another sender"));
            }
            _ => {}
        }
    }
}

/// One of Linux's default range, 32768 to 60999.
fn ephemeral_port(request: u64) -> u16 {
    u16::try_from(32768 + request % 28232).unwrap_or(u16::MAX)
}

/// The INIT ACK for a received packet, if that is an INIT for this port.
pub(super) fn answer(
    received: &[u8],
    ipv4: bool,
    port: u16,
    reply: impl Fn(&[u8]) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let init =
        Packet::decode(received, ipv4).filter(|packet| packet.chunk == INIT && packet.ports[1] == port)?;
    let cookie = reply(&message::encode(init.initiate.into(), 0));
    let ports = [port, init.ports[0]];
    Some(
        Packet { ports, tag: init.initiate, chunk: INIT_ACK, initiate: init.initiate, cookie: &cookie }
            .encode(),
    )
}

/// A packet with one chunk that initiates or aborts an association.
#[derive(Debug, PartialEq, Eq)]
struct Packet<'a> {
    /// Source and destination.
    ports: [u16; 2],
    /// The verification tag: the receiver's own `initiate` tag.
    tag: u32,
    chunk: u8,
    initiate: u32,
    cookie: &'a [u8],
}

impl<'a> Packet<'a> {
    fn encode(&self) -> Vec<u8> {
        let size = |octets: usize| u16::try_from(octets).unwrap_or(u16::MAX).to_be_bytes();
        let mut parameter = Vec::new();
        if !self.cookie.is_empty() {
            parameter = [&STATE_COOKIE.to_be_bytes()[..], &size(4 + self.cookie.len()), self.cookie].concat();
        }
        let mut packet = self.ports.map(u16::to_be_bytes).concat();
        packet.extend([self.tag.to_be_bytes(), [0; 4]].concat());
        packet.extend([self.chunk, 0]);
        packet.extend(size(FIXED - 12 + parameter.len()));
        packet.extend(self.initiate.to_be_bytes());
        // Receiver window, outbound and inbound streams, initial sequence number.
        packet.extend([0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
        packet.extend(parameter);
        packet.resize(packet.len().next_multiple_of(4), 0);
        let checksum = crc32c(&packet).to_le_bytes();
        packet[8..12].copy_from_slice(&checksum);
        packet
    }

    /// A raw IPv4 socket delivers the IP header, too.
    fn decode(received: &'a [u8], ipv4: bool) -> Option<Self> {
        let header = if ipv4 { usize::from(received.first()? & 0xf) * 4 } else { 0 };
        let packet = received.get(header..)?;
        let short = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?));
        let chunk = *packet.get(12)?;
        let cookie = short(FIXED + 2).and_then(|length| packet.get(FIXED + 4..FIXED + usize::from(length)));
        Some(Self {
            ports: [short(0)?, short(2)?],
            tag: long(4)?,
            chunk,
            initiate: long(16).unwrap_or_default(),
            cookie: cookie.unwrap_or_default(),
        })
    }
}

/// The checksum that conntrack requires (RFC 9260 appendix A), over a packet whose checksum field is zero.
fn crc32c(packet: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
    !packet.iter().fold(u32::MAX, |crc, octet| (0..8).fold(crc ^ u32::from(*octet), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnoli_s() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn an_init_is_answered_on_its_own_port_only() {
        let init = Packet { ports: [40000, 80], tag: 0, chunk: INIT, initiate: 7, cookie: &[] }.encode();
        let reply = |request: &[u8]| message::reply(request, "shop/a-1");
        let ack = answer(&init, false, 80, reply).unwrap();
        let expected =
            Packet { ports: [80, 40000], tag: 7, chunk: INIT_ACK, initiate: 7, cookie: b"7 shop/a-1\n" };
        assert_eq!(Packet::decode(&ack, false), Some(expected));
        assert_eq!(answer(&init, false, 81, reply), None);
        assert_eq!(answer(&ack, false, 40000, reply), None);
        assert_eq!(answer(&init[..11], true, 80, reply), None);
    }
}
