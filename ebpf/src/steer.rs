//! Steered flows: to the live endpoint behind conntrack, and their answers back before it.
//!
//! A packet that leaves towards the denied endpoint gets the live one as its destination and leaves towards that. An
//! answer gets the denied one as its source and comes in once more, where it would have come in from there: so conntrack
//! knows it, and a strict `rp_filter` lets it through.

use crate::direct::{self, Hop};
use crate::frame::Frame;
use crate::link::Link;
use crate::skb::Skb;
use crate::{clock, maps};
use aya_ebpf::bindings::{__sk_buff, BPF_F_INGRESS, TC_ACT_SHOT};
use aya_ebpf::helpers::generated::{bpf_redirect, bpf_redirect_neigh};
use core::ptr::null_mut;
use epguard_common::{
    Backend, Backends, Bytes as _, Flow, JUDGED, Outcome, Packet, Reason, Return, Role, Slot, Steered,
    Target, Transport,
};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where the packet's flow was steered, while the endpoint is there.
#[inline(always)]
pub fn known(packet: &Packet, slot: Slot) -> Option<Backend> {
    let flow = Flow::to(packet, slot);
    let steered = maps::steered(&flow)?;
    // SAFETY: the entry stays readable for the run of the program.
    let (backend, closing) = unsafe { ((*steered).backend, (*steered).closing) };
    if opens(packet) && closing != 0 {
        // Another flow from the same port: nothing of the last one may lead it away.
        maps::forget_flow(&flow);
        return None;
    }
    (maps::owner(&backend.addr) == Some(backend.uid)).then_some(backend)
}

/// Where a flow that opens is steered to. UDP does not say whether it opens: nobody answered it before.
#[inline(always)]
pub fn chosen(packet: &Packet, backends: Option<*const Backends>) -> Option<Backend> {
    let opens = opens(packet) || packet.protocol == UDP;
    // SAFETY: the entry stays readable for the run of the program; every bit pattern is Backends.
    let backend = unsafe { (*backends?).choose(packet) }?;
    (opens && maps::owner(&backend.addr) == Some(backend.uid)).then_some(backend)
}

/// Whether a packet can get another destination: not a fragment, whose others have no port, not SCTP, whose checksum
/// nobody would put right, and nothing between the headers that means the address too.
#[inline(always)]
pub fn is_steerable<F: Frame>(frame: &F, packet: &Packet) -> bool {
    const MORE_FRAGMENTS: u8 = 0x20;
    let whole = if packet.dst.is_v4() {
        let fragmentation = frame.read::<1>(packet.network_at + 6);
        fragmentation.is_some_and(|[flags]| flags & MORE_FRAGMENTS == 0)
    } else {
        packet.transport_at == 40
    };
    whole && packet.network_at == 0 && matches!(packet.protocol, TCP | UDP)
}

/// Where packets leave towards the live endpoint; `None` where the node would not send them. Nor into a tunnel with an
/// address of the node's own, which was chosen for the way to the denied endpoint: it may be one that the other node
/// expects elsewhere (strict `rp_filter`).
#[inline(always)]
pub fn way<F: Frame>(frame: &F, packet: &Packet, backend: &Backend) -> Option<u32> {
    let to = |dst, dst_port| Packet {
        dst,
        dst_port,
        ..*packet
    };
    let Hop::Through(ifindex) = direct::route(frame, &to(backend.addr, backend.port))? else {
        return None;
    };
    let own = || direct::route(frame, &to(packet.src, packet.src_port)).is_none();
    let expected = maps::role(ifindex) != Role::TUNNEL || !own();
    expected.then_some(ifindex)
}

/// Sends a packet that carries its intent to the live endpoint. Global, see `reject::turn_round`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn forth(context: *mut __sk_buff) -> i32 {
    let skb = Skb::judged(context);
    or_drop(&skb, forward(&skb))
}

/// Sends an answer of a live endpoint back. Global, see `reject::turn_round`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn back(context: *mut __sk_buff) -> i32 {
    let skb = Skb::judged(context);
    or_drop(&skb, backward(&skb))
}

/// What cannot be sent where it should go is dropped and counted.
#[inline(always)]
fn or_drop(skb: &Skb, sent: Option<i32>) -> i32 {
    sent.unwrap_or_else(|| {
        maps::count(Reason::Nothing, Outcome::RedirectFailed, skb.length());
        TC_ACT_SHOT
    })
}

#[inline(always)]
fn forward(skb: &Skb) -> Option<i32> {
    let view = maps::view()?;
    let slot = skb.carried_slot(&view);
    skb.relabel(&view, slot.number, JUDGED);
    let packet = skb.packet()?;
    let target = Target {
        addr: packet.dst,
        slot,
        port: packet.dst_port,
        protocol: packet.protocol,
        reserved: [0; 3],
    };
    let backend = match known(packet, slot) {
        Some(backend) => backend,
        None => chosen(packet, maps::backends(&target))?,
    };
    let ifindex = way(skb, packet, &backend)?;
    let mut link = Link::of(skb)?;
    remember(skb, &link, packet, slot, &backend)?;
    link.readdress(packet, true, (backend.addr, backend.port))?;
    // SAFETY: takes numbers only.
    Some(unsafe { bpf_redirect_neigh(ifindex, null_mut(), 0, 0) } as i32)
}

/// Writes down where the flow goes and how answers come back; interfaces and neighbours may have changed since.
#[inline(always)]
fn remember(skb: &Skb, link: &Link<'_>, packet: &Packet, slot: Slot, backend: &Backend) -> Option<()> {
    let flow = Flow::to(packet, slot);
    let [d0, d1, d2, s0, s1, s2] = link.ethernet()?;
    let back = Return {
        target: packet.dst,
        ifindex: skb.ifindex(),
        target_port: packet.dst_port,
        slot: flow.slot,
        ethernet: [s0, s1, s2, d0, d1, d2],
    };
    let behind = flow.at(backend);
    // SAFETY: the entry stays readable for the run of the program; every bit pattern is a Return.
    let returns = maps::returned(&behind).is_some_and(|known| unsafe { *known == back });
    (returns || maps::remember_return(&behind, &back)).then_some(())?;
    let goes_on = maps::steered(&flow).filter(|_| !opens(packet));
    // SAFETY: as in `backward`; CPUs that race write nearly the same.
    if let Some(steered) = goes_on.map(|steered| unsafe { &mut *steered })
        && steered.backend == *backend
    {
        steered.used_ns = clock::now_ns();
        steered.closing |= u32::from(closes(skb, packet));
        return Some(());
    }
    let steered = Steered {
        backend: *backend,
        closing: closes(skb, packet).into(),
        used_ns: clock::now_ns(),
    };
    maps::remember_flow(&flow, &steered).then_some(())
}

/// Whether the packet is an answer of a live endpoint to a flow that was steered to it, and can be turned back.
#[inline(always)]
pub fn is_answer(skb: &Skb, packet: &Packet) -> bool {
    packet.transport.has_ports()
        && packet.network_at == 0
        && !skb.is_tagged()
        && steered_by(&Flow::from(packet)).is_some()
}

/// The flow whose answers come so. What RETURNS says may be of an earlier flow of the same client and port: FLOWS knows to
/// which endpoint it goes now.
#[inline(always)]
fn steered_by(behind: &Flow) -> Option<(*const Return, *mut Steered)> {
    let back = maps::returned(behind)?;
    // SAFETY: the entry stays readable for the run of the program; every bit pattern is a Return.
    let steered = maps::steered(&behind.before(unsafe { &*back }))?;
    // SAFETY: likewise.
    let backend = unsafe { &(*steered).backend };
    (backend.addr == behind.endpoint && backend.port == behind.endpoint_port).then_some((back, steered))
}

#[inline(always)]
fn backward(skb: &Skb) -> Option<i32> {
    let packet = skb.packet()?;
    let (back, steered) = steered_by(&Flow::from(packet))?;
    // SAFETY: the entries stay for the run of the program, of this flow or of one that has just got their place: then it is
    // looked at a little later. Every bit pattern is a Return.
    let back = unsafe {
        (*steered).used_ns = clock::now_ns();
        (*steered).closing |= u32::from(closes(skb, packet));
        *back
    };
    let mut link = Link::of(skb)?;
    link.readdress(packet, false, (back.target, back.target_port))?;
    link.set_ethernet(back.ethernet)?;
    let view = maps::view()?;
    skb.make_answer(&view);
    // SAFETY: takes numbers only.
    Some(unsafe { bpf_redirect(back.ifindex, BPF_F_INGRESS.into()) } as i32)
}

/// A packet that conntrack itself sends to the live endpoint, from the same port: that flow is the one that everybody
/// knows of, so a steered one that looks the same to the endpoint has to go.
#[inline(always)]
pub fn give_way(packet: &Packet) {
    let behind = Flow::to(packet, Slot::NONE);
    if let Some((back, _)) = steered_by(&behind) {
        // SAFETY: as in `steered_by`.
        maps::forget_flow(&behind.before(unsafe { &*back }));
    }
}

#[inline(always)]
fn opens(packet: &Packet) -> bool {
    matches!(packet.transport, Transport::Opening)
}

#[inline(always)]
fn closes(skb: &Skb, packet: &Packet) -> bool {
    const FIN_OR_RST: u8 = 0x05;
    packet.protocol == TCP
        && skb
            .read::<1>(packet.transport_at + 13)
            .is_some_and(|[flags]| flags & FIN_OR_RST != 0)
}
