//! Steered flows: to the live endpoint behind conntrack, and their answers back before it.
//!
//! A packet that leaves towards the denied endpoint gets the live one as its destination and leaves towards that. An
//! answer gets the denied one as its source and comes in once more, where it would have come in from there: so conntrack
//! knows it, and a strict `rp_filter` lets it through.

use crate::frame::Frame;
use crate::link::Link;
use crate::route::{Hop, route, source_interface};
use crate::skb::Skb;
use crate::{clock, flows, maps};
use aya_ebpf::EbpfContext as _;
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
    let steered = flows::steered(&flow)?;
    // SAFETY: the entry stays readable for the run of the program.
    let (backend, flags) = unsafe { ((*steered).backend, (*steered).flags) };
    // Another flow from the same port: nothing of the last one may lead it away.
    let anew = opens(packet) && flags & Steered::CLIENT_CLOSED != 0;
    (!anew && maps::owner(&backend.addr) == Some(backend.uid)).then_some(backend)
}

/// Where a flow that opens is steered to. UDP does not say whether it opens: nobody answered it before.
#[inline(always)]
pub fn chosen(packet: &Packet, backends: Option<*const Backends>) -> Option<Backend> {
    let opens = opens(packet) || packet.protocol == UDP;
    // SAFETY: the entry stays readable for the run of the program; every bit pattern is Backends.
    let backend = unsafe { (*backends?).choose(packet) }?;
    (opens && maps::owner(&backend.addr) == Some(backend.uid)).then_some(backend)
}

/// Whether no other connection of the client looks like this one to the live endpoint. Another redirected one counts once
/// its handshake is proven: anybody can forge a SYN.
#[inline(never)]
fn is_free(flow: &Flow, backend: &Backend) -> bool {
    let behind = flow.at(backend);
    if !flows::is_live(backend.addr, backend.port, flow.protocol) || flows::is_direct(&behind) {
        return false;
    }
    let Some((back, steered)) = steered_by(&behind) else {
        return true;
    };
    // SAFETY: as in `steered_by`.
    let (back, steered) = unsafe { (&*back, &*steered) };
    behind.before(back) == *flow
        || steered.flags & Steered::PROVEN == 0
        || Steered::is_closed(steered.flags)
        || steered.is_over(flow.protocol, clock::now_ns())
}

/// Notes what a packet that no egress hook has judged says of flows: of redirected ones, which it may end, and of
/// connections to endpoints in LIVE that were not redirected there. Global, as all that follow: each has the stack for
/// itself, and the verifier judges it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn note(context: *mut __sk_buff, parsed: u32) -> u32 {
    let skb = Skb::new(context, parsed);
    let (Some(packet), Some(view)) = (skb.packet(), maps::view()) else {
        return 0;
    };
    let carried = skb.carried(&view);
    if view.flows == 0 || carried == JUDGED || view.is_answer(carried) {
        return 0;
    }
    give_way(packet);
    forget_last(packet, Slot::from_carried(carried));
    note_direct(&skb, packet);
    1
}

/// Forgets the closed flow of a port from which another one opens.
#[inline(always)]
fn forget_last(packet: &Packet, slot: Slot) {
    if !opens(packet) || !slot.is_some() {
        return;
    }
    let flow = Flow::to(packet, slot);
    if let Some(steered) = flows::steered(&flow) {
        // SAFETY: the entry stays readable for the run of the program.
        let steered = unsafe { &*steered };
        if steered.flags & Steered::CLIENT_CLOSED != 0 {
            flows::forget(&flow, &flow.at(&steered.backend));
        }
    }
}

/// A client that entered elsewhere than where the node routes it may be forged, and is not noted; one that the node routes
/// nowhere is itself, for masqueraded clients.
#[inline(always)]
fn note_direct(skb: &Skb, packet: &Packet) {
    if !flows::leads_to_live(packet) {
        return;
    }
    let flow = Flow::to(packet, Slot::NONE);
    flows::note_direct(&flow, opens(packet), closes(skb, packet), || {
        let there = source_interface(skb.as_ptr().cast());
        there == 0 || there == skb.came_in_at()
    });
}

/// Whether a packet's flow may be steered; 0 if not. One that opens may be if no connection looks like it to the live
/// endpoint, and if its source shows its sender: a process of this node, or a client that the node has a route to. Of
/// masqueraded clients several may share one address and port, which only conntrack tells apart.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn admit(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    let Some((packet, slot)) = aimed(&skb) else {
        return 0;
    };
    if known(packet, slot).is_some() {
        return 1;
    }
    forget_last(packet, slot);
    let Some(backend) = chosen(packet, maps::backends(&target(packet, slot))) else {
        return 0;
    };
    let shows_its_sender = skb.has_socket() || source_interface(context) != 0;
    u32::from(shows_its_sender && is_free(&Flow::to(packet, slot), &backend))
}

/// The packet, and the Service whose number it carries.
#[inline(always)]
fn aimed<'a>(skb: &'a Skb) -> Option<(&'a Packet, Slot)> {
    let view = maps::view()?;
    Some((skb.packet()?, skb.carried_slot(&view)))
}

#[inline(always)]
fn target(packet: &Packet, slot: Slot) -> Target {
    Target {
        addr: packet.dst,
        slot,
        port: packet.dst_port,
        protocol: packet.protocol,
        reserved: [0; 3],
    }
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
    let Hop::Through(ifindex) = route(frame, &to(backend.addr, backend.port))? else {
        return None;
    };
    let own = || route(frame, &to(packet.src, packet.src_port)).is_none();
    let expected = maps::role(ifindex) != Role::TUNNEL || !own();
    expected.then_some(ifindex)
}

/// Writes down where the flow of an admitted packet goes; 0 if that fails.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn enter(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    u32::from(remember(&skb).is_some())
}

/// Brings the flow of a packet to the map that its state belongs to; 0 if it is in none.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn advance(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    u32::from(progress(&skb).is_some())
}

/// Sends a packet whose flow was entered to the live endpoint.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn forth(context: *mut __sk_buff) -> i32 {
    let skb = Skb::judged(context);
    or_drop(&skb, forward(&skb))
}

/// Drops a packet whose flow could not be entered.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn fail(context: *mut __sk_buff) -> i32 {
    or_drop(&Skb::judged(context), None)
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
    let backend = known(packet, slot)?;
    let ifindex = way(skb, packet, &backend)?;
    let mut link = Link::of(skb)?;
    link.readdress(packet, true, (backend.addr, backend.port))?;
    // SAFETY: takes numbers only.
    Some(unsafe { bpf_redirect_neigh(ifindex, null_mut(), 0, 0) } as i32)
}

/// Writes down where the flow goes and how answers come back; interfaces and neighbours may have changed since.
#[inline(always)]
fn remember(skb: &Skb) -> Option<()> {
    let (packet, slot) = aimed(skb)?;
    let backend = match known(packet, slot) {
        Some(backend) => backend,
        None => chosen(packet, maps::backends(&target(packet, slot)))?,
    };
    let [d0, d1, d2, s0, s1, s2] = Link::of(skb)?.ethernet()?;
    let flow = Flow::to(packet, slot);
    let back = Return {
        target: packet.dst,
        ifindex: skb.ifindex(),
        target_port: packet.dst_port,
        slot: flow.slot,
        ethernet: [s0, s1, s2, d0, d1, d2],
    };
    let behind = flow.at(&backend);
    // SAFETY: the entry stays readable for the run of the program; every bit pattern is a Return.
    let returns = flows::returned(&behind).is_some_and(|known| unsafe { *known == back });
    let writable = || is_free(&flow, &backend) && flows::remember_return(&flow, &behind, &back);
    (returns || writable()).then_some(())?;
    // SAFETY: as in `backward`; CPUs that race write nearly the same.
    if let Some(steered) = flows::steered(&flow).map(|steered| unsafe { &mut *steered })
        && steered.backend == backend
    {
        steered.used_ns = clock::now_ns();
        return Some(());
    }
    let steered = Steered {
        backend,
        used_ns: clock::now_ns(),
        ..Steered::default()
    };
    flows::open(&flow, &steered).then_some(())
}

/// Moves a flow to where its state belongs: to FLOWS once the client has proven its handshake, out of it once both sides
/// have closed.
#[inline(always)]
fn progress(skb: &Skb) -> Option<()> {
    let (packet, slot) = aimed(skb)?;
    if packet.protocol != TCP {
        return None;
    }
    let flow = Flow::to(packet, slot);
    // SAFETY: as in `remember`.
    let steered = unsafe { &mut *flows::steered(&flow)? };
    let behind = flow.at(&steered.backend);
    steered.flags |= closed_by_client(skb, packet);
    if steered.flags & Steered::PROVEN == 0 && !opens(packet) {
        let number = skb.read::<4>(packet.transport_at + 8).map(u32::from_be_bytes)?;
        if steered.is_proven_by(number) {
            steered.flags |= Steered::PROVEN;
        }
    }
    if steered.flags & Steered::PROVEN == 0 {
        return Some(());
    }
    let (closed, established) = (
        Steered::is_closed(steered.flags),
        flows::established(&flow).is_some(),
    );
    if closed && established {
        flows::close(&flow, &behind, steered)
    } else if !closed && !established {
        flows::establish(&flow, &behind, steered)
    } else {
        Some(())
    }
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
    let back = flows::returned(behind)?;
    // SAFETY: the entry stays readable for the run of the program; every bit pattern is a Return.
    let steered = flows::steered(&behind.before(unsafe { &*back }))?;
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
        if closes(skb, packet) {
            (*steered).flags |= Steered::ENDPOINT_CLOSED;
        }
        if let Some(proof) = proof(skb, packet) {
            (*steered).proof = proof;
            (*steered).flags |= Steered::ANSWERED;
        }
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

/// What the client acknowledges if it gets this SYN-ACK; `None` for other packets. And for a SYN-ACK that enters elsewhere
/// than where the node routes the endpoint: it may be forged. A bridge's ports are not told apart.
#[inline(always)]
fn proof(skb: &Skb, packet: &Packet) -> Option<u32> {
    const SYN_ACK: u8 = 0x12;
    let [flags] = skb.read::<1>(packet.transport_at + 13)?;
    if packet.protocol != TCP || flags & SYN_ACK != SYN_ACK {
        return None;
    }
    let there = source_interface(skb.as_ptr().cast());
    let entered = there == skb.ifindex() || maps::role(there) == Role::BRIDGE;
    let number = skb.read::<4>(packet.transport_at + 4).map(u32::from_be_bytes)?;
    entered.then_some(number.wrapping_add(1))
}

/// A packet that conntrack itself sends to the live endpoint, from the same port: that flow is the one that everybody
/// knows of, so a steered one that looks the same to the endpoint has to go.
#[inline(always)]
fn give_way(packet: &Packet) {
    let behind = Flow::to(packet, Slot::NONE);
    if let Some((back, _)) = steered_by(&behind) {
        // SAFETY: as in `steered_by`.
        flows::forget(&behind.before(unsafe { &*back }), &behind);
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

/// How a packet of the client closes its flow. A RST of the client is the end of it: conntrack lets no forged one through
/// that is outside of the connection's window.
#[inline(always)]
fn closed_by_client(skb: &Skb, packet: &Packet) -> u32 {
    const RST: u8 = 0x04;
    let flags = skb.read::<1>(packet.transport_at + 13);
    if !closes(skb, packet) {
        0
    } else if flags.is_some_and(|[flags]| flags & RST != 0) {
        Steered::CLIENT_CLOSED | Steered::ENDPOINT_CLOSED
    } else {
        Steered::CLIENT_CLOSED
    }
}
