//! A TCP RST (RFC 9293 section 3.10.7.1) that a client in any state takes: its numbers are those
//! that it expects exactly, as RFC 5961 section 3.2 demands.

use super::{Rewrite, TCP, network};
use crate::{Meant, Packet};

/// Octets of a TCP header without options.
const HEADER: u32 = 20;
/// Where the checksum lies in it.
const CHECKSUM_AT: u32 = 16;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Makes the packet into a RST to its client.
#[inline(always)]
pub fn write<R: Rewrite>(frame: &mut R, packet: &Packet, meant: &Meant) -> Option<()> {
    let header_at = packet.transport_at;
    let numbers = Segment::read(frame, packet)?.numbers()?;

    // The RST has no data, and its header no options.
    frame.resize(header_at + HEADER)?;

    // The TCP header, with a checksum of 0 until it is known whether the device completes it.
    let header = TcpHeader {
        source_port: meant.vip.port,
        destination_port: meant.client_port,
        numbers,
    };
    let words = header.words();
    frame.write(header_at, words)?;

    // The checksum.
    let pseudo = network::pseudo_header(meant, TCP, HEADER);
    let checksum = if frame.is_partial(header_at + CHECKSUM_AT)? {
        pseudo.folded()
    } else {
        pseudo.with(words).checksum()
    };
    let [low, high] = checksum.to_ne_bytes();
    frame.write(
        header_at + CHECKSUM_AT,
        [u32::from_ne_bytes([low, high, 0, 0])],
    )?;

    // The IP header.
    network::write(frame, packet, meant, TCP, HEADER)
}

/// The TCP header of a RST.
struct TcpHeader {
    /// Host order.
    source_port: u16,
    /// Host order.
    destination_port: u16,
    numbers: Numbers,
}

impl TcpHeader {
    /// Five words without options.
    const DATA_OFFSET: u32 = 5 << 28;

    /// The header as it lies in memory. Window, checksum and urgent pointer are 0.
    #[inline(always)]
    fn words(&self) -> [u32; 5] {
        let flags = u32::from(self.numbers.flags) << 16;
        [
            network::ports_word(self.source_port, self.destination_port),
            self.numbers.sequence.to_be(),
            self.numbers.acknowledged.to_be(),
            (Self::DATA_OFFSET | flags).to_be(),
            0,
        ]
    }
}

/// What counts of the packet's TCP header; host order.
struct Segment {
    sequence: u32,
    acknowledged: u32,
    /// Data offset, flags, window.
    control: u32,
    /// Octets with the TCP header, by the IP header's length field; 0 for a packet too long for
    /// that field.
    length: u32,
}

/// Sequence and acknowledgement numbers and flags of a RST; host order.
struct Numbers {
    sequence: u32,
    acknowledged: u32,
    flags: u8,
}

impl Segment {
    #[inline(always)]
    fn read<R: Rewrite>(frame: &R, packet: &Packet) -> Option<Self> {
        let [_, sequence, acknowledged, control] = frame.words::<4>(packet.transport_at)?;
        let headers = packet.transport_at - packet.network_at;
        Some(Self {
            sequence: u32::from_be(sequence),
            acknowledged: u32::from_be(acknowledged),
            control: u32::from_be(control),
            length: network::length(frame, packet)?.saturating_sub(headers),
        })
    }

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
