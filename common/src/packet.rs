//! Parses the fields of a packet that decide. Truncated and malformed packets are `None`, never a
//! guess.

use crate::Addr;
use crate::protocol::{IPV4, IPV6, SCTP, TCP, UDP};

/// Bytes of a packet from the network header on.
///
/// Offsets count from what the device's `skb->protocol` describes: an IP header, or the rest of a
/// VLAN tag that no hardware took off. This works with and without an Ethernet header.
pub trait Bytes {
    /// The `N` octets at `offset`, `None` where the packet is shorter.
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]>;

    /// The `N` words at `offset`, as they lie in memory.
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]>;
}

/// The fields that decide. Flat, so that the compiler never copies a part that was not filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// As on the wire.
    pub src: Addr,
    /// As on the wire.
    pub dst: Addr,
    /// Host order; 0 where there are no ports.
    pub src_port: u16,
    /// Host order; 0 where there are no ports.
    pub dst_port: u16,
    /// IP protocol number of the transport header.
    pub protocol: u8,
    /// What follows the network headers.
    pub transport: Transport,
    /// Where the IP header begins.
    pub network_at: u32,
    /// Where the transport header begins, if there are ports.
    pub transport_at: u32,
}

impl Packet {
    /// Whether the packet opens a flow.
    #[inline(always)]
    pub const fn opens(&self) -> bool {
        matches!(self.transport, Transport::Opening)
    }

    /// Both ports and the protocol, which all packets of a connection in one direction share.
    #[inline(always)]
    pub const fn ports(&self) -> u64 {
        self.src_port as u64 | (self.dst_port as u64) << 16 | (self.protocol as u64) << 32
    }

    /// Whether the packet may open a flow: a UDP packet does not show whether it does.
    #[inline(always)]
    pub const fn may_open(&self) -> bool {
        self.opens() || self.protocol == UDP
    }
}

/// The kind of the transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP, UDP, SCTP: a packet with ports.
    Ports,
    /// With ports, and it opens a flow: TCP SYN without ACK, SCTP INIT.
    Opening,
    /// A fragment other than the first: no ports.
    Fragment,
    /// Another protocol: no ports.
    Other,
}

impl Transport {
    /// Whether there are ports.
    #[inline]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::Ports | Self::Opening)
    }
}

/// Source port, destination port, kind.
type Ports = (u16, u16, Transport);

/// Parses a packet. `ether_type` is `skb->protocol` in host order.
///
/// Up to two VLAN tags, IPv4 options, up to [`MAX_EXTENSIONS`] IPv6 extension headers, fragments.
#[inline(always)]
pub fn parse<B: Bytes>(bytes: &B, ether_type: u16) -> Option<Packet> {
    let (ether_type, offset) = skip_vlan_tags(bytes, ether_type)?;
    parse_ip::<B, false>(bytes, ether_type, offset)
}

/// Parses a packet of the shape that nearly all have: no VLAN tag, no IPv4 options, no IPv6
/// extension headers. `None`: [`parse`] has to find out what it is.
#[inline(always)]
pub fn parse_plain<B: Bytes>(bytes: &B, ether_type: u16) -> Option<Packet> {
    parse_ip::<B, true>(bytes, ether_type, 0)
}

#[inline(always)]
fn parse_ip<B: Bytes, const PLAIN: bool>(
    bytes: &B,
    ether_type: u16,
    offset: u32,
) -> Option<Packet> {
    if ether_type == IPV4 {
        parse_ipv4::<B, PLAIN>(bytes, offset)
    } else if ether_type == IPV6 {
        parse_ipv6::<B, PLAIN>(bytes, offset)
    } else {
        None
    }
}

const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];

/// Whether a frame of this type (host order) begins with a VLAN tag.
#[inline]
pub const fn is_vlan_tag(ether_type: u16) -> bool {
    ether_type == VLAN_TAGS[0] || ether_type == VLAN_TAGS[1]
}

#[inline(always)]
pub(crate) fn skip_vlan_tags<B: Bytes>(bytes: &B, mut ether_type: u16) -> Option<(u16, u32)> {
    let mut offset = 0;
    for _ in 0..2 {
        if !is_vlan_tag(ether_type) {
            break;
        }
        ether_type = u16::from_be_bytes(bytes.read(offset + 2)?);
        offset += 4;
    }
    Some((ether_type, offset))
}

#[inline(always)]
fn parse_ipv4<B: Bytes, const PLAIN: bool>(bytes: &B, offset: u32) -> Option<Packet> {
    let [first, fragmentation, time_to_live, src, dst] = bytes.words::<5>(offset)?;
    let version_and_length = first.to_ne_bytes()[0];
    let header_length = u32::from(version_and_length & 0x0f) * 4;
    if version_and_length >> 4 != 4 || header_length < 20 || PLAIN && header_length != 20 {
        return None;
    }
    let fragment_offset = u32::from_be(fragmentation) & 0x1fff;
    let protocol = time_to_live.to_ne_bytes()[1];
    let (src_port, dst_port, transport) = if fragment_offset == 0 {
        parse_transport(bytes, offset + header_length, protocol)?
    } else {
        (0, 0, Transport::Fragment)
    };
    Some(Packet {
        src: Addr::from_v4_word(src),
        dst: Addr::from_v4_word(dst),
        src_port,
        dst_port,
        protocol,
        transport,
        network_at: offset,
        transport_at: offset + header_length,
    })
}

/// IPv6 extension headers that are walked; more than that is no traffic of a Service.
pub const MAX_EXTENSIONS: usize = 6;

#[inline(always)]
fn parse_ipv6<B: Bytes, const PLAIN: bool>(bytes: &B, offset: u32) -> Option<Packet> {
    let [first, second, s0, s1, s2, s3, d0, d1, d2, d3] = bytes.words::<10>(offset)?;
    if first.to_ne_bytes()[0] >> 4 != 6 {
        return None;
    }
    let mut protocol = second.to_ne_bytes()[2];
    let src = Addr::from_words([s0, s1, s2, s3]);
    let dst = Addr::from_words([d0, d1, d2, d3]);
    // `::ffff:a.b.c.d` on the wire (RFC 4291 section 2.5.5.2 gives it no meaning there) is not IPv4
    // host a.b.c.d.
    if src.is_v4() || dst.is_v4() {
        return None;
    }
    let mut at = offset + 40;
    for _ in 0..=MAX_EXTENSIONS {
        let (next, length) = match Extension::from_number(protocol) {
            None => {
                let (src_port, dst_port, transport) = parse_transport(bytes, at, protocol)?;
                return Some(Packet {
                    src,
                    dst,
                    src_port,
                    dst_port,
                    protocol,
                    transport,
                    network_at: offset,
                    transport_at: at,
                });
            }
            Some(_) if PLAIN => return None,
            Some(Extension::Fragment) => {
                let [next, _, high, low] = bytes.read::<4>(at)?;
                if u16::from_be_bytes([high, low]) & 0xfff8 != 0 {
                    let transport = Transport::Fragment;
                    return Some(Packet {
                        src,
                        dst,
                        src_port: 0,
                        dst_port: 0,
                        protocol: next,
                        transport,
                        network_at: offset,
                        transport_at: at,
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

pub(crate) enum Extension {
    /// Hop-by-hop, routing, destination options (RFC 8200): length in 8 octets, not counting the
    /// first.
    Options,
    Fragment,
    /// RFC 4302: length in 4 octets, minus 2.
    Authentication,
}

impl Extension {
    #[inline(always)]
    pub(crate) const fn from_number(next_header: u8) -> Option<Self> {
        match next_header {
            0 | 43 | 60 => Some(Self::Options),
            44 => Some(Self::Fragment),
            51 => Some(Self::Authentication),
            _ => None,
        }
    }
}

#[inline(always)]
fn parse_transport<B: Bytes>(bytes: &B, at: u32, protocol: u8) -> Option<Ports> {
    if !matches!(protocol, TCP | UDP | SCTP) {
        return Some((0, 0, Transport::Other));
    }
    let [ports] = bytes.words::<1>(at)?;
    let [s0, s1, d0, d1] = ports.to_ne_bytes();
    let opens = match protocol {
        TCP => bytes.read::<1>(at + 13)?[0] & (SYN | ACK) == SYN,
        SCTP => bytes.read::<1>(at + 12)?[0] == SCTP_INIT,
        _ => false,
    };
    let transport = if opens {
        Transport::Opening
    } else {
        Transport::Ports
    };
    Some((
        u16::from_be_bytes([s0, s1]),
        u16::from_be_bytes([d0, d1]),
        transport,
    ))
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Chunk type of the first chunk (RFC 9260 section 3.3.2); INIT is never bundled.
const SCTP_INIT: u8 = 1;

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
