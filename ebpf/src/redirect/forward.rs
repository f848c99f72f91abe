//! Packets of clients in redirected flows: to the live endpoint.

use super::destination::{Destination, NextHop, is_free, next_hop};
use super::pair::of_client;
use super::{drop_failed, flows};
use crate::frame::Origin as _;
use crate::link::{Link, Side};
use crate::reject::{Seeker, find_way};
use crate::route::shows_its_sender;
use crate::skb::Skb;
use crate::tcp_flags::{RST, closes, flags};
use crate::work::Work;
use crate::{clock, maps};
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{__sk_buff, TC_ACT_SHOT};
use aya_ebpf::helpers::generated::bpf_redirect_neigh;
use core::ptr::null_mut;
use epguard_common::protocol::TCP;
use epguard_common::{Bytes as _, Flow, Packet, Redirected, Return};

/// Sends a packet of a redirected flow to the live endpoint.
#[inline(always)]
pub fn follow(context: *mut __sk_buff) -> i32 {
    if enter(context) == 0 {
        return fail(context);
    }
    advance(context);
    forth(context)
}

/// Stores where the flow of an admitted packet goes; 0 if that fails, for whichever reason: the
/// packet is dropped then.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn enter(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    u32::from(enter_flow(&Skb::new(context, work)).is_ok())
}

/// Moves the flow of a packet to the map that its state belongs to; 0 if it is in none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn advance(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    u32::from(advance_flow(&Skb::new(context, work)).is_some())
}

/// Sends a packet whose flow was entered to the live endpoint.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn forth(context: *mut __sk_buff) -> i32 {
    let Some(work) = Work::of_this_processor() else {
        return TC_ACT_SHOT;
    };
    let skb = Skb::new(context, work);
    match send(&skb) {
        Some(action) => action,
        None => drop_failed(&skb),
    }
}

/// Drops a packet whose flow could not be entered.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn fail(context: *mut __sk_buff) -> i32 {
    let Some(work) = Work::of_this_processor() else {
        return TC_ACT_SHOT;
    };
    drop_failed(&Skb::new(context, work))
}

#[inline(always)]
fn send(skb: &Skb) -> Option<i32> {
    let is_known = skb.work.destination.get().through != 0;
    if !is_known && next_hop(skb.as_ptr().cast()) != NextHop::Found as u32 {
        return None;
    }
    let Destination { backend, through } = skb.work.destination.get();
    let mut link = Link::from_skb(skb)?;
    let packet = skb.work.packet.get();
    link.readdress(packet, Side::Destination, backend.addr, backend.port)?;
    // SAFETY: takes numbers only.
    let action = unsafe { bpf_redirect_neigh(*through, null_mut(), 0, 0) };
    Some(action as i32)
}

/// Why a flow was not entered.
enum NotEntered {
    /// Its replies have no way back.
    NoWayBack,
    /// Another connection of the client has its addresses at the live endpoint.
    NotFree,
    /// The frame cannot be read.
    Unreadable,
    /// The maps have no room.
    NoRoom,
}

/// Stores where the flow and its replies go; interfaces and neighbours may have changed since.
#[inline(always)]
fn enter_flow(skb: &Skb) -> Result<(), NotEntered> {
    let work = skb.work;
    let packet = work.packet.get();
    let vip = &work.meant.get().vip;
    let destination = work.destination.get();
    if destination.through == 0 && find_way(skb.as_ptr().cast(), Seeker::Replies as u32) == 0 {
        // While the agent lists the interfaces anew, none has a role.
        if maps::role(skb.ifindex()).is_some()
            && let Some((entry, _)) = of_client(work)
        {
            entry.take();
        }
        return Err(NotEntered::NoWayBack);
    }
    let way = work.way.get();
    let link = Link::from_skb(skb).ok_or(NotEntered::Unreadable)?;
    let back = Return {
        target: packet.dst,
        ifindex: way.ifindex,
        target_port: packet.dst_port,
        reserved: 0,
        ethernet: link.entering(way.station).ok_or(NotEntered::Unreadable)?,
    };
    let backend = &destination.backend;
    let flow = work.flow.get_mut();
    flow.there.key = Flow::to(packet);
    flow.back.key = flow.there.key.with_live_endpoint(backend);
    let is_recorded = flows::read_return(&mut flow.back).is_some() && flow.back.value == back;
    flow.back.value = back;
    if !is_recorded {
        if !is_free(&flow.there.key, backend, work) {
            return Err(NotEntered::NotFree);
        }
        if !flows::record_return(flow) {
            return Err(NotEntered::NoRoom);
        }
    }
    if let Some(entry) = flows::redirected(&flow.there.key)
        && entry.read(&mut flow.there).is_some()
        && flow.there.value.backend == *backend
        && flow.there.value.vip == *vip
        && flow.there.value.flags & Redirected::TAKEN == 0
    {
        entry.touch();
        return Ok(());
    }
    flow.there.value = Redirected {
        backend: *backend,
        vip: *vip,
        used_ns: clock::now_ns(),
        ..Redirected::default()
    };
    if !flows::open(flow) {
        return Err(NotEntered::NoRoom);
    }
    Ok(())
}

/// Moves a flow to the map that its state belongs to: to FLOWS once the client has proven its
/// handshake, to OPENING once both sides have closed. `None` if the flow is in none.
#[inline(always)]
fn advance_flow(skb: &Skb) -> Option<()> {
    let packet = skb.work.packet.get();
    if packet.protocol != TCP {
        return None;
    }
    let (entry, flow) = of_client(skb.work)?;
    let redirected = &mut flow.there.value;
    let flags = flags_after(skb, packet, redirected)?;
    if flags != redirected.flags {
        if !shows_its_sender(skb) {
            return Some(());
        }
        entry.set_flags(flags);
        redirected.flags = flags;
    }
    if redirected.flags & Redirected::PROVEN == 0 {
        return Some(());
    }
    let is_closed = Redirected::is_closed(redirected.flags);
    let is_established = flows::established(&flow.there.key).is_some();
    if is_closed && is_established {
        flows::close(flow)
    } else if !is_closed && !is_established {
        flows::establish(entry, flow)
    } else {
        Some(())
    }
}

/// The flags of the flow after this packet of its client.
#[inline(always)]
fn flags_after(skb: &Skb, packet: &Packet, redirected: &Redirected) -> Option<u32> {
    let mut flags = redirected.flags | closed_by_client(skb, packet);
    if flags & Redirected::PROVEN == 0 && !packet.opens() {
        let acknowledged = skb.read::<4>(packet.transport_at + 8)?;
        if redirected.is_proven_by(u32::from_be_bytes(acknowledged)) {
            flags |= Redirected::PROVEN;
        }
    }
    if flags & Redirected::RESET != 0 && !packet.opens() && !closes(skb, packet) {
        // A client that goes on sending has not reset the connection: the RST was forged.
        flags &= !(Redirected::RESET | Redirected::CLIENT_CLOSED | Redirected::ENDPOINT_CLOSED);
    }
    Some(flags)
}

/// The flags by which a packet of the client closes its flow. A RST of the client ends it, unless
/// more packets follow.
#[inline(always)]
fn closed_by_client(skb: &Skb, packet: &Packet) -> u32 {
    if !closes(skb, packet) {
        0
    } else if flags(skb, packet) & RST != 0 {
        Redirected::RESET | Redirected::CLIENT_CLOSED | Redirected::ENDPOINT_CLOSED
    } else {
        Redirected::CLIENT_CLOSED
    }
}
