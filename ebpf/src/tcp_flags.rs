//! The flags of a TCP packet.

use crate::skb::Skb;
use epguard_common::protocol::TCP;
use epguard_common::{Bytes as _, Packet};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// The flags; 0 for a packet that is not TCP.
#[inline(always)]
pub fn flags(skb: &Skb, packet: &Packet) -> u8 {
    if packet.protocol != TCP {
        return 0;
    }
    skb.read::<1>(packet.transport_at + 13)
        .map_or(0, |[flags]| flags)
}

/// True for a TCP packet with FIN or RST.
#[inline(always)]
pub fn closes(skb: &Skb, packet: &Packet) -> bool {
    flags(skb, packet) & (FIN | RST) != 0
}
