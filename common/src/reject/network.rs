//! The IP header of an answer, and the pseudo-header that transport checksums cover.

use super::{Rewrite, Sum};
use crate::{Meant, Packet};

/// Octets of an IP header without options.
#[inline(always)]
pub const fn header_length(packet: &Packet) -> u32 {
    if packet.dst.is_v4() { 20 } else { 40 }
}

/// Octets of IPv4 options, or of IPv6 extension headers.
#[inline(always)]
pub const fn options_length(packet: &Packet) -> u32 {
    (packet.transport_at - packet.network_at).saturating_sub(header_length(packet))
}

/// Octets of the packet from the IP header on, by the header's length field.
#[inline(always)]
pub fn length<R: Rewrite>(frame: &R, packet: &Packet) -> Option<u32> {
    if packet.dst.is_v4() {
        frame
            .read(packet.network_at + 2)
            .map(|length| u16::from_be_bytes(length).into())
    } else {
        let payload = u16::from_be_bytes(frame.read(packet.network_at + 4)?);
        Some(u32::from(payload) + 40)
    }
}

/// The sum of the pseudo-header of the answer (RFC 9293 section 3.1, RFC 8200 section 8.1). It does
/// not matter which address is the source.
#[inline(always)]
pub const fn pseudo_header(meant: &Meant, protocol: u8, length: u32) -> Sum {
    let sum = Sum::new().with([length.to_be(), (protocol as u32).to_be()]);
    let called = meant.vip.addr.words();
    let client = meant.client.words();
    if meant.client.is_v4() {
        sum.with([called[3], client[3]])
    } else {
        sum.with(called).with(client)
    }
}

/// The first word of a TCP, UDP or SCTP header. Ports in host order.
#[inline(always)]
pub const fn ports_word(source: u16, destination: u16) -> u32 {
    ((source as u32) << 16 | destination as u32).to_be()
}

/// Gives the packet back the addresses and ports that its client wrote, for the quote. Its
/// transport checksum stays: no receiver of an error compares it.
#[inline(always)]
pub fn restore<R: Rewrite>(frame: &mut R, packet: &Packet, meant: &Meant) -> Option<()> {
    let ports = ports_word(meant.client_port, meant.vip.port);
    frame.write(packet.transport_at, [ports])?;
    let client = meant.client.words();
    let called = meant.vip.addr.words();
    if packet.dst.is_v4() {
        restore_v4(frame, packet, client[3], called[3])
    } else {
        frame.write(packet.network_at + V6_SOURCE_AT, client)?;
        frame.write(packet.network_at + V6_DESTINATION_AT, called)
    }
}

/// Gives an IPv4 packet other addresses, with the checksum of its header.
#[inline(always)]
fn restore_v4<R: Rewrite>(
    frame: &mut R,
    packet: &Packet,
    source: u32,
    destination: u32,
) -> Option<()> {
    let hops_at = packet.network_at + V4_HOPS_AT;
    let [behind_offset, old_source, old_destination] = frame.words::<3>(hops_at)?;
    let [hops, protocol, low, high] = behind_offset.to_ne_bytes();
    let old_checksum = u16::from_ne_bytes([low, high]);
    // RFC 1624: the complement of the old checksum, less what was there, with what is there now.
    let changed = Sum::new().with([
        u32::from(!old_checksum),
        !old_source,
        !old_destination,
        source,
        destination,
    ]);
    let [low, high] = changed.checksum().to_ne_bytes();
    let behind_offset = u32::from_ne_bytes([hops, protocol, low, high]);
    frame.write(hops_at, [behind_offset, source, destination])
}

/// Writes the header of the answer: `length` octets follow it.
#[inline(always)]
pub fn write<R: Rewrite>(
    frame: &mut R,
    packet: &Packet,
    meant: &Meant,
    protocol: u8,
    length: u32,
) -> Option<()> {
    if packet.dst.is_v4() {
        let header = Ipv4Header {
            total_length: length + 20,
            protocol,
            source: meant.vip.addr.words()[3],
            destination: meant.client.words()[3],
        };
        frame.write(packet.network_at, header.words())
    } else {
        let start = Ipv6Start {
            payload_length: length,
            next_header: protocol,
        };
        let source = meant.vip.addr.words();
        let destination = meant.client.words();
        frame.write(packet.network_at, start.words())?;
        frame.write(packet.network_at + V6_SOURCE_AT, source)?;
        frame.write(packet.network_at + V6_DESTINATION_AT, destination)
    }
}

/// An IPv4 header without options. It is never fragmented, so it needs no id (RFC 6864).
struct Ipv4Header {
    total_length: u32,
    protocol: u8,
    /// As it lies in memory.
    source: u32,
    /// As it lies in memory.
    destination: u32,
}

impl Ipv4Header {
    /// Version 4, and five words without options.
    const VERSION_AND_LENGTH: u32 = 0x45 << 24;
    const DO_NOT_FRAGMENT: u32 = 0x4000;

    /// The header as it lies in memory, with its checksum.
    #[inline(always)]
    fn words(&self) -> [u32; 5] {
        let mut words = [
            (Self::VERSION_AND_LENGTH | self.total_length).to_be(),
            Self::DO_NOT_FRAGMENT.to_be(),
            (HOPS << 24 | u32::from(self.protocol) << 16).to_be(),
            self.source,
            self.destination,
        ];
        let [low, high] = Sum::new().with(words).checksum().to_ne_bytes();
        words[2] |= u32::from_ne_bytes([0, 0, low, high]);
        words
    }
}

/// What lies before the addresses in an IPv6 header.
struct Ipv6Start {
    payload_length: u32,
    next_header: u8,
}

impl Ipv6Start {
    const VERSION: u32 = 6 << 28;

    /// The words as they lie in memory. Traffic class and flow label are 0.
    #[inline(always)]
    fn words(&self) -> [u32; 2] {
        let next_header = u32::from(self.next_header) << 8;
        [
            Self::VERSION.to_be(),
            (self.payload_length << 16 | next_header | HOPS).to_be(),
        ]
    }
}

/// Time to live, or hop limit.
const HOPS: u32 = 64;
/// Where the time to live, the protocol and the checksum lie, before the addresses.
const V4_HOPS_AT: u32 = 8;
const V6_SOURCE_AT: u32 = 8;
const V6_DESTINATION_AT: u32 = 24;
