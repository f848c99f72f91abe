//! The ingress hook, before DNAT: writes which Service a packet is aimed at, and judges packets to a pod's IP itself.

use crate::frame::Origin as _;
use crate::skb::Skb;
use crate::{aimed, maps, terminated, turned};
use epguard_common::{
    Decision, Entering, Force, IngressModel, Marking, Outcome, Packet, Reason, Slot, View, Vip,
    decide_ingress,
};

/// Carries out what `epguard_common` decides about a packet that enters. `by_ip`: whether it may be aimed at the IP itself.
#[inline(always)]
pub fn judge(skb: &Skb, by_ip: bool) -> Decision {
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
    terminated::lift(skb, packet);
    match packet {
        Some(packet) => {
            terminated::sight(skb, packet);
            if by_ip {
                terminated::judge(skb, packet, &view)
            } else {
                Decision::Pass
            }
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
        maps::service(&Vip::of(packet)).is_some() || maps::terminated(&packet.dst).is_some()
    }

    #[inline(always)]
    fn is_reply(&self, packet: &Packet) -> bool {
        self.view.flows != 0 && turned::is_answer(self.skb, packet)
    }

    #[inline(always)]
    fn force(&self) -> Force {
        self.skb.force(self.view)
    }
}

/// Writes the packet's intent. A packet to any other destination gets none, also if its sender wrote a number there.
#[inline(always)]
fn mark(skb: &Skb, packet: Option<&Packet>, view: &View) {
    let vip = packet.filter(|packet| packet.transport.has_ports()).map(Vip::of);
    let slot = vip.map_or(Slot::NONE, |vip| maps::service(&vip));
    let carried = skb.carry(view, slot.number);
    let Some(packet) = packet.filter(|_| slot.is_some()) else {
        return;
    };
    if view.socket_lb != 0 {
        maps::count(Reason::Nothing, Outcome::NotTranslated, skb.length());
    }
    match Marking::of(carried, view.wipers != 0, || skb.force(view)) {
        Marking::Done => {}
        Marking::RememberSender => aimed::record_sender(packet, slot),
        Marking::NotCarried => {
            skb.carry(view, Slot::NONE.number);
            maps::count(Reason::Nothing, Outcome::NotCarried, skb.length());
        }
    }
}
