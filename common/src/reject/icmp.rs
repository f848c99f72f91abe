//! ICMP "port unreachable" (RFC 792, RFC 4443 section 3.1) with as much of the packet as the client
//! needs to find its socket.

use super::{Rewrite, Sum, UDP, network};
use crate::protocol::{ICMP, ICMPV6};
use crate::{Meant, Packet};

/// Octets of the packet that are quoted at most, in full words: IP header, ports, and SCTP's INIT
/// with its tag (RFC 9260 section 10 demands 40 octets of it).
pub const MAX_QUOTE: u32 = 128;
/// At least so much is quoted of the transport header (RFC 792).
const LEAST: u32 = 8;
/// Octets of the header of an ICMP error.
const HEADER: u32 = 8;
/// Where the checksum lies in a UDP header.
const UDP_CHECKSUM_AT: u32 = 6;
/// Type and code of RFC 792.
const UNREACHABLE: u8 = 3;
const PORT_UNREACHABLE: u8 = 3;
/// Type and code of RFC 4443.
const UNREACHABLE_V6: u8 = 1;
const PORT_UNREACHABLE_V6: u8 = 4;

/// Makes the packet into an ICMP error to its client. The ICMP header takes the place of the
/// transport header: there the kernel would complete a transport checksum, as it does for one that
/// has been left to the device (`CHECKSUM_PARTIAL`). That of UDP then falls on octets that mean
/// nothing, and makes good what NAT changed until then.
#[inline(always)]
pub fn write<R: Rewrite>(frame: &mut R, packet: &Packet, meant: &Meant) -> Option<()> {
    let header_at = packet.transport_at;
    let quote_at = header_at + HEADER;
    let quoted = quoted(frame, packet)?;
    let is_v6 = !packet.dst.is_v4();

    // The quote is the packet that the client sent, moved behind the ICMP header.
    network::restore(frame, packet, meant)?;
    frame.resize(packet.network_at + quoted)?;
    frame.resize(quote_at + MAX_QUOTE)?;
    let quote = move_up(frame, packet.network_at, quote_at)?;
    frame.resize(quote_at + quoted)?;

    // The ICMP header, with a checksum of 0 until it is known what the device adds.
    let mut header = IcmpHeader {
        kind: if is_v6 { UNREACHABLE_V6 } else { UNREACHABLE },
        code: if is_v6 {
            PORT_UNREACHABLE_V6
        } else {
            PORT_UNREACHABLE
        },
        checksum: 0,
        unused: 0,
    };
    frame.write(header_at, header.words())?;

    // The checksum. That of ICMPv6 covers the pseudo-header.
    let pseudo = if is_v6 {
        network::pseudo_header(meant, ICMPV6, HEADER + quoted)
    } else {
        Sum::new()
    };
    if is_v6 && packet.protocol == UDP && frame.is_partial(header_at + UDP_CHECKSUM_AT)? {
        header.unused = pseudo.folded();
    }
    header.checksum = pseudo.with(header.words()).and(quote).checksum();
    frame.write(header_at, header.words())?;

    // The IP header.
    let protocol = if is_v6 { ICMPV6 } else { ICMP };
    network::write(frame, packet, meant, protocol, HEADER + quoted)
}

/// How many octets of the packet are quoted, in full words. `None`: too few to find the socket by.
#[inline(always)]
fn quoted<R: Rewrite>(frame: &R, packet: &Packet) -> Option<u32> {
    let length = network::length(frame, packet)?;
    let quoted = if length > MAX_QUOTE {
        MAX_QUOTE
    } else {
        length & !3
    };
    let headers = packet.transport_at - packet.network_at;
    if quoted < headers + LEAST {
        return None;
    }
    Some(quoted)
}

/// The header of an ICMP error.
struct IcmpHeader {
    kind: u8,
    code: u8,
    /// As it lies in memory.
    checksum: u16,
    /// The last two octets, which mean nothing. As they lie in memory.
    unused: u16,
}

impl IcmpHeader {
    /// The header as it lies in memory.
    #[inline(always)]
    fn words(&self) -> [u32; 2] {
        let [low, high] = self.checksum.to_ne_bytes();
        let [unused_low, unused_high] = self.unused.to_ne_bytes();
        [
            u32::from_ne_bytes([self.kind, self.code, low, high]),
            u32::from_ne_bytes([0, 0, unused_low, unused_high]),
        ]
    }
}

/// Copies as much as can be quoted to a higher place, the last octets first, and returns its sum. A
/// shorter quote ends in zeros, which count for nothing: the verifier has an easier time with one
/// length.
#[inline(always)]
fn move_up<R: Rewrite>(frame: &mut R, from: u32, to: u32) -> Option<Sum> {
    let mut sum = Sum::new();
    let mut offset = MAX_QUOTE;
    while offset > 0 {
        offset -= BLOCK;
        sum = sum.and(copied(frame, from + offset, to + offset)?);
    }
    Some(sum)
}

/// Octets that are copied at once.
const BLOCK: u32 = 16;

#[inline(always)]
fn copied<R: Rewrite>(frame: &mut R, from: u32, to: u32) -> Option<Sum> {
    match copy(frame, from, to) {
        FAILED => None,
        sum => Some(Sum::of_words(sum)),
    }
}

/// Not inlined, for every copy of it would take its part of the stack; returns a number, as
/// functions for BPF can.
#[inline(never)]
fn copy<R: Rewrite>(frame: &mut R, from: u32, to: u32) -> u64 {
    let Some([a, b, c, d]) = frame.words::<4>(from) else {
        return FAILED;
    };
    match frame.write(to, [a, b, c, d]) {
        Some(()) => u64::from(a) + u64::from(b) + u64::from(c) + u64::from(d),
        None => FAILED,
    }
}

/// No sum of four words is so large.
const FAILED: u64 = u64::MAX;
