//! The Service that each sender aimed at a moment ago: to count why a packet carries no intent, never to judge it.

use crate::clock;
use crate::maps::AIMED;
use epguard_common::{Aimed, Packet, Sender, Slot};

/// Stores which Service the packet's sender aims at.
#[inline(always)]
pub fn record_sender(packet: &Packet, slot: Slot) {
    let aimed = Aimed {
        at_ns: clock::now_ns(),
        slot,
        reserved: [0; 3],
    };
    // A full LRU map evicts the coldest sender, whose lost intents are then counted as `no-intent`.
    let _ = AIMED.insert(sender(packet), aimed, 0);
}

/// The Service that the packet's sender aimed at a moment ago ([`Aimed::WINDOW_NS`]).
#[inline(always)]
pub fn aimed_at(packet: &Packet) -> Option<Slot> {
    // SAFETY: every bit pattern is an Aimed.
    let aimed = AIMED
        .get_ptr(sender(packet))
        .map(|aimed| unsafe { aimed.read_volatile() })?;
    (clock::now_ns().saturating_sub(aimed.at_ns) <= Aimed::WINDOW_NS).then_some(aimed.slot)
}

#[inline(always)]
fn sender(packet: &Packet) -> Sender {
    Sender {
        addr: packet.src,
        port: packet.src_port,
        protocol: packet.protocol,
        reserved: 0,
    }
}
