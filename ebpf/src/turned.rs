//! Replies of live endpoints in redirected flows: back to the interface where the flow's packets left.

use crate::frame::Origin as _;
use crate::link::Link;
use crate::maps;
use crate::redirect::or_drop;
use crate::redirected::of_endpoint;
use crate::route::source_interface;
use crate::skb::Skb;
use crate::tcp_flags::closes;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{__sk_buff, BPF_F_INGRESS};
use aya_ebpf::helpers::generated::bpf_redirect;
use epguard_common::{Bytes as _, Flow, Packet, Redirected, Role};

const TCP: u8 = 6;

/// Sends a reply of a live endpoint back to the client. Global, see `reject::turn_round`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn back(context: *mut __sk_buff) -> i32 {
    let skb = Skb::judged(context);
    or_drop(&skb, backward(&skb))
}

/// Whether the packet is a reply of a live endpoint in a redirected flow, and can be sent back.
#[inline(always)]
pub fn is_reply(skb: &Skb, packet: &Packet) -> bool {
    packet.transport.has_ports()
        && packet.network_at == 0
        && !skb.is_tagged()
        && of_endpoint(Flow::from(packet)).is_some()
}

#[inline(always)]
fn backward(skb: &Skb) -> Option<i32> {
    let packet = skb.packet()?;
    let (entry, flow) = of_endpoint(Flow::from(packet))?;
    let back = &flow.back.value;
    entry.touch();
    if closes(skb, packet) && entered_from_endpoint(skb) {
        entry.add_flags(Redirected::ENDPOINT_CLOSED);
    }
    if let Some(proof) = proof(skb, packet) {
        entry.answered(proof);
    }
    let mut link = Link::of(skb)?;
    link.readdress(packet, false, (back.target, back.target_port))?;
    link.set_ethernet(back.ethernet)?;
    skb.make_answer();
    // SAFETY: takes numbers only.
    Some(unsafe { bpf_redirect(back.ifindex, BPF_F_INGRESS.into()) } as i32)
}

/// The number that the client acknowledges if it gets this SYN-ACK; `None` for other packets, and for one that may be forged.
#[inline(always)]
fn proof(skb: &Skb, packet: &Packet) -> Option<u32> {
    const SYN_ACK: u8 = 0x12;
    let [flags] = skb.read::<1>(packet.transport_at + 13)?;
    if packet.protocol != TCP || flags & SYN_ACK != SYN_ACK || !entered_from_endpoint(skb) {
        return None;
    }
    let number = skb.read::<4>(packet.transport_at + 4).map(u32::from_be_bytes)?;
    Some(number.wrapping_add(1))
}

/// Whether the packet enters where the node routes the endpoint; otherwise it may be forged. All ports of a bridge count as
/// one.
#[inline(always)]
fn entered_from_endpoint(skb: &Skb) -> bool {
    let there = source_interface(skb.as_ptr().cast());
    there == skb.ifindex() || maps::role(there) == Some(Role::Bridge)
}
