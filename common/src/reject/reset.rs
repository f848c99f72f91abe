//! A TCP RST (RFC 9293 section 3.10.7.1) that a client in any state takes: its numbers are those
//! that it expects exactly, as RFC 5961 section 3.2 demands.

use super::{Rewrite, TCP, network};
use crate::{Meant, Packet};

/// Octets of a TCP header without options.
const HEADER: u32 = 20;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Makes the packet into a RST to its client.
#[inline(always)]
pub fn write<R: Rewrite>(frame: &mut R, packet: &Packet, meant: &Meant) -> Option<()> {
    let at = packet.transport_at;
    let [_, sequence, acknowledged, control] = frame.words::<4>(at)?;
    let segment = Segment {
        sequence: u32::from_be(sequence),
        acknowledged: u32::from_be(acknowledged),
        control: u32::from_be(control),
        length: network::length(frame, packet)?.saturating_sub(at - packet.network_at),
    };
    let numbers = segment.numbers()?;
    frame.resize(at + HEADER)?;
    let mut header = [
        (u32::from(meant.vip.port) << 16 | u32::from(meant.client_port)).to_be(),
        numbers.sequence.to_be(),
        numbers.acknowledged.to_be(),
        (0x5000_0000 | u32::from(numbers.flags) << 16).to_be(),
        0,
    ];
    frame.write(at, header)?;
    let pseudo = network::pseudo_header(meant, TCP, HEADER);
    let checksum = if frame.is_partial(at + 16)? {
        pseudo.folded()
    } else {
        pseudo.with(header).checksum()
    };
    let [low, high] = checksum.to_ne_bytes();
    header[4] = u32::from_ne_bytes([low, high, 0, 0]);
    frame.write(at + 16, [header[4]])?;
    network::write(frame, packet, meant, TCP, HEADER)
}

/// What counts of a TCP header; host order.
struct Segment {
    sequence: u32,
    acknowledged: u32,
    /// Data offset, flags, window.
    control: u32,
    /// Octets with the TCP header, by the IP header's length field; 0 for a packet too long for
    /// that field.
    length: u32,
}

/// Sequence and acknowledgement numbers and flags of a RST.
struct Numbers {
    sequence: u32,
    acknowledged: u32,
    flags: u8,
}

impl Segment {
    /// `None` for a segment shorter than its own header.
    #[inline(always)]
    fn numbers(&self) -> Option<Numbers> {
        let flags = self.control.to_be_bytes()[1];
        if flags & ACK != 0 {
            return Some(Numbers {
                sequence: self.acknowledged,
                acknowledged: 0,
                flags: RST,
            });
        }
        let header = (self.control >> 28) * 4;
        let payload = self.length.checked_sub(header)?;
        let ends = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        Some(Numbers {
            sequence: 0,
            acknowledged: self.sequence.wrapping_add(payload).wrapping_add(ends),
            flags: RST | ACK,
        })
    }
}
