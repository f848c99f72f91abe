//! From bytes to the fields that decide. Truncated and malformed packets are `None`, never a guess.

use crate::Addr;
use network_types::{eth::EtherType, ip::IpProto};

/// Bytes of a packet from the network header on.
///
/// Offsets count from what the device's `skb->protocol` describes: an IP header, or the rest of a VLAN tag
/// that no hardware took off. This works with and without an Ethernet header.
pub trait Bytes {
    /// The `N` octets at `offset`, `None` where the packet is shorter.
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]>;
}

/// The fields that decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// As on the wire.
    pub src: Addr,
    /// As on the wire.
    pub dst: Addr,
    /// IP protocol number of the transport header.
    pub protocol: u8,
    /// What follows the network headers.
    pub transport: Transport,
}

/// What can be said of the transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP, UDP, SCTP; ports in host order.
    Ports {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// Opens a flow: TCP SYN without ACK, SCTP INIT.
        opens: bool,
    },
    /// A fragment other than the first: no ports.
    Fragment,
    /// Another protocol.
    Other,
}

const TCP: u8 = IpProto::Tcp as u8;
const UDP: u8 = IpProto::Udp as u8;
const SCTP: u8 = IpProto::Sctp as u8;

/// Parses a packet. `ether_type` is `skb->protocol` in host order.
///
/// Up to two VLAN tags, IPv4 options, up to [`MAX_EXTENSIONS`] IPv6 extension headers, fragments.
#[inline(always)]
#[allow(
    clippy::inline_always,
    reason = "one function to the verifier: no stack frame of its own"
)]
pub fn parse<B: Bytes>(bytes: &B, ether_type: u16) -> Option<Packet> {
    let (ether_type, offset) = skip_vlan_tags(bytes, ether_type)?;
    if ether_type == u16::from_be(EtherType::Ipv4 as u16) {
        parse_ipv4(bytes, offset)
    } else if ether_type == u16::from_be(EtherType::Ipv6 as u16) {
        parse_ipv6(bytes, offset)
    } else {
        None
    }
}

const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];

#[inline(always)]
#[allow(clippy::inline_always, reason = "as parse")]
fn skip_vlan_tags<B: Bytes>(bytes: &B, ether_type: u16) -> Option<(u16, u32)> {
    let (mut ether_type, mut offset) = (ether_type, 0);
    for _ in 0..2 {
        if !VLAN_TAGS.contains(&ether_type) {
            break;
        }
        ether_type = u16::from_be_bytes(bytes.read(offset + 2)?);
        offset += 4;
    }
    Some((ether_type, offset))
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "as parse")]
fn parse_ipv4<B: Bytes>(bytes: &B, offset: u32) -> Option<Packet> {
    let header: [u8; 20] = bytes.read(offset)?;
    let header_length = u32::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_length < 20 {
        return None;
    }
    let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    let protocol = header[9];
    let transport = if fragment_offset == 0 {
        parse_transport(bytes, offset + header_length, protocol)?
    } else {
        Transport::Fragment
    };
    Some(Packet {
        src: Addr::v4([header[12], header[13], header[14], header[15]]),
        dst: Addr::v4([header[16], header[17], header[18], header[19]]),
        protocol,
        transport,
    })
}

/// IPv6 extension headers that are walked; more than that is no traffic of a Service.
pub const MAX_EXTENSIONS: usize = 6;

#[inline(always)]
#[allow(clippy::inline_always, reason = "as parse")]
fn parse_ipv6<B: Bytes>(bytes: &B, offset: u32) -> Option<Packet> {
    if bytes.read::<1>(offset)?[0] >> 4 != 6 {
        return None;
    }
    let [mut protocol, _] = bytes.read::<2>(offset + 6)?;
    let src = Addr::v6(bytes.read(offset + 8)?);
    let dst = Addr::v6(bytes.read(offset + 24)?);
    let mut at = offset + 40;
    for _ in 0..=MAX_EXTENSIONS {
        let (next, length) = match Extension::of(protocol) {
            None => {
                let transport = parse_transport(bytes, at, protocol)?;
                return Some(Packet {
                    src,
                    dst,
                    protocol,
                    transport,
                });
            }
            Some(Extension::Fragment) => {
                let [next, _, high, low] = bytes.read::<4>(at)?;
                if u16::from_be_bytes([high, low]) & 0xfff8 != 0 {
                    return Some(Packet {
                        src,
                        dst,
                        protocol: next,
                        transport: Transport::Fragment,
                    });
                }
                (next, 8)
            }
            Some(Extension::Options) => {
                let [next, units] = bytes.read::<2>(at)?;
                (next, (u32::from(units) + 1) * 8)
            }
            Some(Extension::Authentication) => {
                let [next, units] = bytes.read::<2>(at)?;
                (next, (u32::from(units) + 2) * 4)
            }
        };
        protocol = next;
        at += length;
    }
    None
}

enum Extension {
    /// Hop-by-hop, routing, destination options (RFC 8200): length in 8 octets, not counting the first.
    Options,
    Fragment,
    /// RFC 4302: length in 4 octets, minus 2.
    Authentication,
}

impl Extension {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as parse")]
    const fn of(next_header: u8) -> Option<Self> {
        match next_header {
            0 | 43 | 60 => Some(Self::Options),
            44 => Some(Self::Fragment),
            51 => Some(Self::Authentication),
            _ => None,
        }
    }
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "as parse")]
fn parse_transport<B: Bytes>(bytes: &B, at: u32, protocol: u8) -> Option<Transport> {
    if !matches!(protocol, TCP | UDP | SCTP) {
        return Some(Transport::Other);
    }
    let [s0, s1, d0, d1] = bytes.read::<4>(at)?;
    let opens = match protocol {
        TCP => bytes.read::<1>(at + 13)?[0] & (SYN | ACK) == SYN,
        SCTP => bytes.read::<1>(at + 12)?[0] == SCTP_INIT,
        _ => false,
    };
    Some(Transport::Ports {
        src: u16::from_be_bytes([s0, s1]),
        dst: u16::from_be_bytes([d0, d1]),
        opens,
    })
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Chunk type of the first chunk (RFC 9260 section 3.3.2); INIT is never bundled.
const SCTP_INIT: u8 = 1;

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
