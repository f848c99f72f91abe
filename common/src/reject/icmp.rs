//! ICMP "port unreachable" (RFC 792, RFC 4443 section 3.1) with as much of the packet as the client
//! needs to find its socket.

use super::{Rewrite, Sum, UDP, network};
use crate::{Meant, Packet};

/// Octets of the packet that are quoted at most, in full words: IP header, ports, and SCTP's INIT
/// with its tag (RFC 9260 section 10 demands 40 octets of it).
pub const MAX_QUOTE: u32 = 128;
/// At least so much is quoted of the transport header (RFC 792).
const LEAST: u32 = 8;
const HEADER: u32 = 8;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Makes the packet into an ICMP error to its client. The ICMP header takes the place of the
/// transport header: there the kernel would complete a transport checksum, as it does for one that
/// has been left to the device (`CHECKSUM_PARTIAL`). That of UDP then falls on octets that mean
/// nothing, and makes good what NAT changed until then.
#[inline(always)]
pub fn write<R: Rewrite>(frame: &mut R, packet: &Packet, meant: &Meant) -> Option<()> {
    let at = packet.transport_at;
    let length = network::length(frame, packet)?;
    let quoted = if length > MAX_QUOTE {
        MAX_QUOTE
    } else {
        length & !3
    };
    if quoted < at - packet.network_at + LEAST {
        return None;
    }
    network::restore(frame, packet, meant)?;
    frame.resize(packet.network_at + quoted)?;
    frame.resize(at + HEADER + MAX_QUOTE)?;
    let quote = move_up(frame, packet.network_at, at + HEADER)?;
    frame.resize(at + HEADER + quoted)?;
    let (protocol, first) = if packet.dst.is_v4() {
        (ICMP, [3, 3, 0, 0])
    } else {
        (ICMPV6, [1, 4, 0, 0])
    };
    frame.write(at, [u32::from_ne_bytes(first), 0])?;
    let pseudo = match protocol {
        ICMPV6 => network::pseudo_header(meant, ICMPV6, HEADER + quoted),
        _ => Sum::new(),
    };
    let unused = if protocol == ICMPV6 && packet.protocol == UDP && frame.is_partial(at + 6)? {
        let [low, high] = pseudo.folded().to_ne_bytes();
        u32::from_ne_bytes([0, 0, low, high])
    } else {
        0
    };
    let sum = pseudo.with([u32::from_ne_bytes(first), unused]).and(quote);
    let [low, high] = sum.checksum().to_ne_bytes();
    let first = u32::from_ne_bytes([first[0], first[1], low, high]);
    frame.write(at, [first, unused])?;
    network::write(frame, packet, meant, protocol, HEADER + quoted)
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
