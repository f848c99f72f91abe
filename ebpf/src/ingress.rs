//! The ingress hook, before DNAT: writes which Service a packet is aimed at, and judges packets to a pod's IP itself.

use crate::carrier::force;
use crate::frame::Frame as _;
use crate::skb::Skb;
use crate::{aimed, direct, maps, turned};
use epguard_common::{
    Decision, Entering, Force, IngressModel, Marking, Outcome, Packet, Reason, Slot, View, Vip,
    decide_ingress,
};

/// Carries out what `epguard_common` decides about a packet that enters.
#[inline(always)]
pub fn judge(skb: &Skb) -> Decision {
    let Some(view) = maps::active() else {
        return Decision::Pass;
    };
    let packet = skb.packet();
    match decide_ingress(packet, &Tables { skb, view: &view }) {
        Entering::OwnAnswer => {
            skb.carry(&view, view.answer);
            return Decision::Pass;
        }
        Entering::Reply => return Decision::Reply,
        Entering::Judge => {}
    }
    if view.vips != 0 {
        mark(skb, packet, &view);
    }
    if view.terminated == 0 {
        return Decision::Pass;
    }
    direct::lift(skb, packet);
    match packet {
        Some(packet) => {
            direct::sight(skb, packet);
            direct::judge(skb, packet, &view)
        }
        None => Decision::Pass,
    }
}

/// What the decision looks up, in the packet and the maps.
struct Tables<'a> {
    skb: &'a Skb,
    view: &'a View,
}

impl IngressModel for Tables<'_> {
    #[inline(always)]
    fn is_marked(&self) -> bool {
        self.view.is_answer(self.skb.carried(self.view))
    }

    #[inline(always)]
    fn is_aimed(&self, packet: &Packet) -> bool {
        maps::service(&vip(packet)).is_some() || maps::terminated(&packet.dst).is_some()
    }

    #[inline(always)]
    fn is_reply(&self, packet: &Packet) -> bool {
        self.view.flows != 0 && turned::is_answer(self.skb, packet)
    }

    #[inline(always)]
    fn force(&self) -> Force {
        force(self.view)
    }
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

/// Writes the packet's intent. A packet to any other destination gets none, also if its sender wrote a number there.
#[inline(always)]
fn mark(skb: &Skb, packet: Option<&Packet>, view: &View) {
    let vip = packet.filter(|packet| packet.transport.has_ports()).map(vip);
    let slot = vip.map_or(Slot::NONE, |vip| maps::service(&vip));
    let carried = skb.carry(view, slot.number);
    let Some(packet) = packet.filter(|_| slot.is_some()) else {
        return;
    };
    match Marking::of(carried, view.wipers != 0, || force(view)) {
        Marking::Done => {}
        Marking::RememberSender => aimed::remember_sender(packet, slot),
        Marking::NotCarried => {
            skb.carry(view, Slot::NONE.number);
            maps::count(Reason::Nothing, Outcome::NotCarried, skb.length());
        }
    }
}
