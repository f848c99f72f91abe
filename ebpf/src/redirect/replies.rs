//! Replies of live endpoints in redirected flows: back to where the node routes the denied
//! endpoint.

use super::drop_failed;
use super::pair::of_endpoint;
use crate::frame::Origin as _;
use crate::link::{Link, Side};
use crate::maps;
use crate::route::source_interface;
use crate::skb::Skb;
use crate::tcp_flags::{ACK, SYN, closes, flags};
use crate::work::Work;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{__sk_buff, BPF_F_INGRESS, TC_ACT_SHOT};
use aya_ebpf::helpers::generated::bpf_redirect;
use epguard_common::{Bytes as _, Flow, Packet, RawRole, Redirected, Role};

/// Sends a reply of a live endpoint back to the client. Global, see `reject::send_answer`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn send_reply(context: *mut __sk_buff) -> i32 {
    let Some(work) = Work::of_this_processor() else {
        return TC_ACT_SHOT;
    };
    let skb = Skb::new(context, work);
    match send(&skb) {
        Some(action) => action,
        None => drop_failed(&skb),
    }
}

/// Whether the packet is a reply of a live endpoint in a redirected flow, and can be sent back; 0
/// if not. It has passed no `rp_filter` and no filter of the CNI's yet, so one that enters
/// elsewhere than the endpoint's packets do may be forged, and is none. Global, and beside the
/// other verdicts of the ingress hook: below them the stack would not do, before Linux 6.5.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn is_reply(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let skb = Skb::new(context, work);
    let Some(view) = maps::view() else {
        return 0;
    };
    if view.flows == 0 {
        return 0;
    }
    let packet = work.packet.get();
    if !packet.transport.has_ports() || packet.network_at != 0 || skb.is_tagged() || skb.is_answer()
    {
        return 0;
    }
    let Some((entry, flow)) = of_endpoint(Flow::from(packet), work) else {
        return 0;
    };
    let redirected = &flow.there.value;
    if redirected.flags & Redirected::TAKEN != 0
        || !skb.is_in_force(&view)
        || !entered_from_endpoint(&skb)
    {
        return 0;
    }
    if redirected.is_foreign(packet.protocol, flags(&skb, packet)) {
        entry.take();
        return 0;
    }
    1
}

#[inline(always)]
fn send(skb: &Skb) -> Option<i32> {
    let packet = skb.work.packet.get();
    let (entry, flow) = of_endpoint(Flow::from(packet), skb.work)?;
    let back = &flow.back.value;
    let entrance = maps::place_of(back.ifindex).role;
    if !entrance.has(RawRole::TAKES_ANSWERS) {
        // While the agent lists the interfaces anew, none has a role.
        if entrance.role().is_some() {
            entry.take();
        }
        return None;
    }
    entry.touch();
    if closes(skb, packet) {
        entry.add_flags(Redirected::ENDPOINT_CLOSED);
    }
    if let Some(proof) = proof(skb, packet) {
        entry.answered(proof);
    }
    let mut link = Link::from_skb(skb)?;
    link.readdress(packet, Side::Source, back.target, back.target_port)?;
    link.set_ethernet(back.ethernet)?;
    skb.make_answer();
    // SAFETY: takes numbers only.
    let action = unsafe { bpf_redirect(back.ifindex, BPF_F_INGRESS.into()) };
    Some(action as i32)
}

/// The number that the client acknowledges if it gets this SYN-ACK; `None` for other packets.
#[inline(always)]
fn proof(skb: &Skb, packet: &Packet) -> Option<u32> {
    if flags(skb, packet) & (SYN | ACK) != SYN | ACK {
        return None;
    }
    let sequence = skb.read::<4>(packet.transport_at + 4)?;
    Some(u32::from_be_bytes(sequence).wrapping_add(1))
}

/// Whether the packet enters where the node routes the endpoint. All pods' ports of bridges count
/// as one, and all uplinks: answers of another node may come by another way.
#[inline(always)]
fn entered_from_endpoint(skb: &Skb) -> bool {
    let there = source_interface(skb.as_ptr().cast());
    let here = skb.ifindex();
    if there == here {
        return true;
    }
    match maps::role(there) {
        Some(Role::Bridge) => maps::role(here) == Some(Role::Pod),
        Some(Role::Uplink | Role::Stacked) => {
            matches!(maps::role(here), Some(Role::Uplink | Role::Stacked))
        }
        _ => false,
    }
}
