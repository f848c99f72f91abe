//! Entering the stack, before DNAT: which Service is the packet aimed at? If it is aimed at a pod's IP itself, is there
//! anybody?

use crate::skb::Skb;
use crate::{clock, direct, maps, steer};
use epguard_common::{Fate, Mode, Packet, Slot, View, Vip};

/// Judges what is aimed at an IP itself, and writes down the intent of everything else.
#[inline(always)]
pub fn judge(skb: &Skb) -> Fate {
    let Some(view) = maps::active() else {
        return Fate::Pass;
    };
    if skb.is_answer() {
        // Stays on the packet: To must know it too.
        skb.write_intent(Slot::ANSWER);
        return Fate::Pass;
    }
    let packet = skb.packet();
    if view.flows != 0 && packet.is_some_and(|packet| steer::is_answer(skb, packet)) && is_in_force(&view) {
        return Fate::Return;
    }
    if view.suspects != 0 || view.flows != 0 {
        mark(skb, packet);
    }
    if view.terminated == 0 {
        return Fate::Pass;
    }
    direct::lift(skb, packet);
    match packet {
        Some(packet) => direct::judge(skb, packet, &view),
        None => Fate::Pass,
    }
}

/// Whether flows are steered at all: then To turns their packets, and here their answers are turned back.
#[inline(always)]
fn is_in_force(view: &View) -> bool {
    let off = maps::config().is_none_or(|(_, mode, _)| mode == Mode::Off);
    !off && clock::now_ns() <= view.lease_deadline_ns
}

/// Writes the packet's intent; what is aimed elsewhere gets none, so that nothing older sticks to it.
#[inline(always)]
fn mark(skb: &Skb, packet: Option<&Packet>) {
    let vip = packet
        .filter(|packet| packet.transport.has_ports())
        .map(|packet| Vip {
            addr: packet.dst,
            port: packet.dst_port,
            protocol: packet.protocol,
            reserved: 0,
        });
    skb.write_intent(vip.map_or(Slot::NONE, |vip| maps::service(&vip)));
}
