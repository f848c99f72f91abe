//! The flags by which a TCP packet ends a connection.

use crate::skb::Skb;
use epguard_common::{Bytes as _, Packet};

const TCP: u8 = 6;

/// True for a TCP packet with FIN or RST.
#[inline(always)]
pub fn closes(skb: &Skb, packet: &Packet) -> bool {
    const FIN_OR_RST: u8 = 0x05;
    packet.protocol == TCP
        && skb
            .read::<1>(packet.transport_at + 13)
            .is_some_and(|[flags]| flags & FIN_OR_RST != 0)
}

/// True for a TCP packet with RST.
#[inline(always)]
pub fn resets(skb: &Skb, packet: &Packet) -> bool {
    const RST: u8 = 0x04;
    packet.protocol == TCP
        && skb
            .read::<1>(packet.transport_at + 13)
            .is_some_and(|[flags]| flags & RST != 0)
}
