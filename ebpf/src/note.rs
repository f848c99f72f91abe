//! Notes about flows from packets that are not redirected.

use crate::conntrack::{read_entry, read_test_entry};
use crate::found::Found;
use crate::redirected::of_endpoint;
use crate::route::shows_its_sender;
use crate::skb::{Skb, parse_packet};
use crate::tcp_flags::{closes, resets};
use crate::{flows, maps};
use aya_ebpf::bindings::__sk_buff;
use epguard_common::Flow;

/// Takes notes from a packet that leaves: of redirected flows, which it may end, and of connections to endpoints in LIVE that were
/// not redirected there. `TEST`: see [`find`](crate::records::find).
#[inline(always)]
pub fn note<const TEST: bool>(context: *mut __sk_buff) {
    if maps::view().is_none_or(|view| view.flows == 0) || parse_packet(context) == 0 {
        return;
    }
    let own = if has_flow() == 0 {
        0
    } else if TEST {
        read_test_entry()
    } else {
        read_entry(context)
    };
    // conntrack has the denied endpoint for a packet of a redirected flow.
    if Found::of(own) != Found::Unreadable {
        give_way(context);
        note_connection(context);
    }
}

/// Whether a redirected flow has the addresses of the packet at the live endpoint; 0 if not. Global: it has the stack for itself,
/// and the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn has_flow() -> u32 {
    u32::from(maps::packet().is_some_and(|packet| of_endpoint(Flow::to(packet)).is_some()))
}

/// Removes the redirected flow that has the same addresses at the live endpoint as a packet that conntrack itself sends there
/// from the same port. A forged packet ends no flow. Global, as `has_flow`; two functions: before Linux 6.5 one is too large above
/// a lookup of routes.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn give_way(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    let Some(packet) = skb.packet() else {
        return 0;
    };
    if !skb.is_answer()
        && let Some((_, flow)) = of_endpoint(Flow::to(packet))
        && shows_its_sender(&skb, packet)
    {
        flows::forget(flow);
    }
    0
}

/// Takes notes of connections that were not redirected. Global, as `give_way`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn note_connection(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    let Some(packet) = skb.packet().filter(|_| !skb.is_answer()) else {
        return 0;
    };
    let is_real = || shows_its_sender(&skb, packet);
    if flows::is_live(packet.dst, packet.dst_port, packet.protocol) {
        flows::note_direct(&Flow::to(packet), packet.opens(), closes(&skb, packet), is_real);
    } else if resets(&skb, packet) && flows::is_live(packet.src, packet.src_port, packet.protocol) {
        // The client of a connection that its endpoint resets sends nothing more.
        flows::end_direct(&Flow::from(packet), is_real);
    }
    0
}
