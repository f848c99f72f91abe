//! Entering the stack, before DNAT: which Service is the packet aimed at? If it is aimed at a pod's IP itself, is there
//! anybody?

use crate::carrier::{Force, force};
use crate::frame::Frame as _;
use crate::skb::Skb;
use crate::{aimed, direct, maps, turned};
use epguard_common::{Fate, Outcome, Packet, Reason, Slot, View, Vip};

/// Judges what is aimed at an IP itself, and writes down the intent of everything else.
#[inline(always)]
pub fn judge(skb: &Skb) -> Fate {
    let Some(view) = maps::active() else {
        return Fate::Pass;
    };
    let packet = skb.packet();
    if view.is_answer(skb.carried(&view)) && !packet.is_some_and(is_aimed) {
        // The egress hook needs the mark too.
        skb.carry(&view, view.answer);
        return Fate::Pass;
    }
    if view.flows != 0
        && packet.is_some_and(|packet| turned::is_answer(skb, packet))
        && force(&view) == Force::On
    {
        return Fate::Return;
    }
    if view.vips != 0 {
        mark(skb, packet, &view);
    }
    if view.terminated == 0 {
        return Fate::Pass;
    }
    direct::lift(skb, packet);
    match packet {
        Some(packet) => {
            direct::sight(skb, packet);
            direct::judge(skb, packet, &view)
        }
        None => Fate::Pass,
    }
}

/// Whether the packet goes where no answer of ours goes: its sender has guessed the mark.
#[inline(always)]
fn is_aimed(packet: &Packet) -> bool {
    maps::service(&vip(packet)).is_some() || maps::terminated(&packet.dst).is_some()
}

#[inline(always)]
fn vip(packet: &Packet) -> Vip {
    Vip {
        addr: packet.dst,
        port: packet.dst_port,
        protocol: packet.protocol,
        reserved: 0,
    }
}

/// Writes the packet's intent. A packet that is aimed elsewhere carries none, whatever its sender wrote there.
#[inline(always)]
fn mark(skb: &Skb, packet: Option<&Packet>, view: &View) {
    let vip = packet.filter(|packet| packet.transport.has_ports()).map(vip);
    let slot = vip.map_or(Slot::NONE, |vip| maps::service(&vip));
    let carried = skb.carry(view, slot.number);
    let Some(packet) = packet.filter(|_| slot.is_some()) else {
        return;
    };
    if carried && view.wipers == 0 {
        return;
    }
    match force(view) {
        Force::Off => {}
        // Counted by the egress hook, if the packet goes to a denied endpoint.
        Force::Lapsed => aimed::remember_sender(packet, slot),
        Force::On if carried => aimed::remember_sender(packet, slot),
        Force::On => {
            skb.carry(view, Slot::NONE.number);
            maps::count(Reason::Nothing, Outcome::NotCarried, skb.length());
        }
    }
}
