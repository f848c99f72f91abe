//! Notes about flows from packets that are not redirected.

use crate::redirected::{of_client, of_endpoint};
use crate::route::shows_its_sender;
use crate::skb::{Skb, parse_packet};
use crate::tcp_flags::{closes, resets};
use crate::{flows, maps};
use aya_ebpf::bindings::__sk_buff;
use epguard_common::{Flow, JUDGED, Packet, Redirected, Slot};

/// Takes notes from a packet that no egress hook has judged: of redirected flows, which it may end, and of connections to
/// endpoints in LIVE that were not redirected there.
#[inline(always)]
pub fn note(context: *mut __sk_buff) {
    if maps::view().is_none_or(|view| view.flows == 0) {
        return;
    }
    let parsed = parse_packet(context);
    if note_redirected(context, parsed) != 0 {
        note_connection(context, parsed);
    }
}

/// Takes notes of redirected flows. Returns 0 if an egress hook has judged the packet. Global: it has the stack for itself,
/// and the verifier checks it once. Two functions: before Linux 6.5 one is too large above a lookup of routes.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn note_redirected(context: *mut __sk_buff, parsed: u32) -> u32 {
    let skb = Skb::new(context, parsed);
    let (Some(packet), Some(view)) = (skb.packet(), maps::view()) else {
        return 0;
    };
    let carried = skb.carried(&view);
    if carried == JUDGED || view.is_answer(carried) {
        return 0;
    }
    give_way(&skb, packet);
    forget_last(packet, Slot::from_carried(carried));
    1
}

/// Takes notes of connections that were not redirected. Global, as `note_redirected`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn note_connection(context: *mut __sk_buff, parsed: u32) -> u32 {
    let skb = Skb::new(context, parsed);
    let Some(packet) = skb.packet() else {
        return 0;
    };
    note_direct(&skb, packet);
    1
}

/// Removes the closed flow of a port from which another one opens.
#[inline(always)]
pub fn forget_last(packet: &Packet, slot: Slot) {
    if !packet.opens() || !slot.is_some() {
        return;
    }
    if let Some((_, flow)) = of_client(packet, slot)
        && flow.there.value.flags & Redirected::CLIENT_CLOSED != 0
    {
        flows::forget(flow);
    }
}

#[inline(always)]
fn note_direct(skb: &Skb, packet: &Packet) {
    let is_real = || shows_its_sender(skb, packet);
    if flows::is_live(packet.dst, packet.dst_port, packet.protocol) {
        let flow = Flow::to(packet, Slot::NONE);
        flows::note_direct(&flow, packet.opens(), closes(skb, packet), is_real);
    } else if resets(skb, packet) && flows::is_live(packet.src, packet.src_port, packet.protocol) {
        // The client of a connection that its endpoint resets sends nothing more.
        flows::end_direct(&Flow::from(packet), is_real);
    }
}

/// Removes the redirected flow that has the same addresses at the live endpoint as a packet that conntrack itself sends there
/// from the same port. A forged packet ends no flow.
#[inline(always)]
fn give_way(skb: &Skb, packet: &Packet) {
    if let Some((_, flow)) = of_endpoint(Flow::to(packet, Slot::NONE))
        && shows_its_sender(skb, packet)
    {
        flows::forget(flow);
    }
}
