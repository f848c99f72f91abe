//! Headers of TCP packets that no connection sends.

use std::net::SocketAddr;

use epguard_common::{Addr, Sum};

/// The protocol number in an IP header.
pub(super) const TCP: u8 = 6;
/// Octets of a header.
pub(super) const LENGTH: u8 = 20;

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
