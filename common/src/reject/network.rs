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
    let (called, client) = (meant.vip.addr.words(), meant.client.words());
    if meant.client.is_v4() {
        sum.with([called[3], client[3]])
    } else {
        sum.with(called).with(client)
    }
}

/// Gives the packet back the addresses and ports that its client wrote, for the quote. Its
/// transport checksum stays: no receiver of an error compares it.
#[inline(always)]
pub fn restore<R: Rewrite>(frame: &mut R, packet: &Packet, meant: &Meant) -> Option<()> {
    let ports = u32::from(meant.client_port) << 16 | u32::from(meant.vip.port);
    frame.write(packet.transport_at, [ports.to_be()])?;
    let (client, called) = (meant.client.words(), meant.vip.addr.words());
    if !packet.dst.is_v4() {
        frame.write(packet.network_at + 8, client)?;
        return frame.write(packet.network_at + 24, called);
    }
    let [behind_offset, src, dst] = frame.words::<3>(packet.network_at + 8)?;
    let [hops, protocol, low, high] = behind_offset.to_ne_bytes();
    let checksum = u16::from_ne_bytes([low, high]);
    // RFC 1624: the complement of the old checksum, less what was there, with what is there now.
    let changed = Sum::new().with([u32::from(!checksum), !src, !dst, client[3], called[3]]);
    let [low, high] = changed.checksum().to_ne_bytes();
    frame.write(
        packet.network_at + 8,
        [
            u32::from_ne_bytes([hops, protocol, low, high]),
            client[3],
            called[3],
        ],
    )
}

/// Writes the header of the answer: `length` octets follow it. It is never fragmented, so it needs
/// no id (RFC 6864).
#[inline(always)]
pub fn write<R: Rewrite>(
    frame: &mut R,
    packet: &Packet,
    meant: &Meant,
    protocol: u8,
    length: u32,
) -> Option<()> {
    let (src, dst) = (meant.vip.addr.words(), meant.client.words());
    if packet.dst.is_v4() {
        let mut header = [
            (0x4500_0000 | (length + 20)).to_be(),
            DO_NOT_FRAGMENT.to_be(),
            (HOPS << 24 | u32::from(protocol) << 16).to_be(),
            src[3],
            dst[3],
        ];
        let [low, high] = Sum::new().with(header).checksum().to_ne_bytes();
        header[2] |= u32::from_ne_bytes([0, 0, low, high]);
        frame.write(packet.network_at, header)
    } else {
        let (first, second) = (
            0x6000_0000_u32,
            length << 16 | u32::from(protocol) << 8 | HOPS,
        );
        frame.write(packet.network_at, [first.to_be(), second.to_be()])?;
        frame.write(packet.network_at + 8, src)?;
        frame.write(packet.network_at + 24, dst)
    }
}

const DO_NOT_FRAGMENT: u32 = 0x4000;
const HOPS: u32 = 64;
