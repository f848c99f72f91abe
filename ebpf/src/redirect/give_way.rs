//! Redirected flows give way to connections that are not redirected.

use super::pair::of_endpoint;
use crate::conntrack::{read_entry, read_test_entry};
use crate::found::Found;
use crate::maps;
use crate::route::shows_its_sender;
use crate::skb::{Skb, parse_packet};
use crate::tcp_flags::{RST, flags};
use crate::work::Work;
use aya_ebpf::bindings::__sk_buff;
use epguard_common::Flow;

/// Ends a redirected flow that has the same addresses at the live endpoint as a packet that leaves.
/// `TEST`: see [`find`](crate::records::find).
#[inline(always)]
pub fn give_way_to_own_connection<const TEST: bool>(context: *mut __sk_buff, work: &Work) {
    if maps::view().is_none_or(|view| view.flows == 0)
        || !parse_packet(context, work)
        || has_flow() == 0
    {
        return;
    }
    let found = if TEST {
        read_test_entry()
    } else {
        read_entry(context)
    };
    // conntrack has the denied endpoint for a packet of a redirected flow.
    if Found::from_number(found) != Found::Unreadable {
        give_way(context);
    }
}

/// Whether a redirected flow has the addresses of the packet at the live endpoint; 0 if not.
/// Global: it has the stack for itself, and the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn has_flow() -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    u32::from(of_endpoint(Flow::to(work.packet.get()), work).is_some())
}

/// Notes that the client has its own connection with the addresses that a redirected flow has at
/// the live endpoint: conntrack itself sends the packet there. A forged packet ends no flow, nor
/// does the RST by which a client answers one. Global, as `has_flow`; two functions: before Linux
/// 6.5 one is too large above a lookup of routes.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn give_way(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let skb = Skb::new(context, work);
    let packet = work.packet.get();
    if !skb.is_answer()
        && let Some((entry, _)) = of_endpoint(Flow::to(packet), work)
        && flags(&skb, packet) & RST == 0
        && shows_its_sender(&skb)
    {
        entry.take();
    }
    0
}
