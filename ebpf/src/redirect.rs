//! Redirected flows: packets go to the live endpoint behind conntrack, and replies go back before
//! it.
//!
//! A packet that leaves towards the denied endpoint gets the live one as its destination and leaves
//! towards that. A reply gets the denied one as its source and enters again, where the node routes
//! the denied endpoint: so conntrack knows it, and a strict `rp_filter` lets it through. No flow is
//! redirected, and none goes on, where the program of another project is at that interface: it
//! would take replies for packets of the IP's holder.

use crate::frame::Origin as _;
use crate::link::Link;
use crate::redirected::{destination, of_client, of_endpoint, opening};
use crate::reject::{Seeker, find_way};
use crate::route::{route, route_of, shows_its_sender};
use crate::skb::Skb;
use crate::tcp_flags::{RST, closes, flags};
use crate::{clock, flows, maps};
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{__sk_buff, TC_ACT_SHOT};
use aya_ebpf::helpers::generated::{bpf_check_mtu, bpf_redirect_neigh};
use core::ptr::null_mut;
use epguard_common::{
    Backend, Bytes as _, Flow, Outcome, Packet, Reason, Redirected, Return, Role, Vip,
};

const TCP: u8 = 6;

/// Finds the live endpoint of the packet's redirected flow, as long as OWNERS shows the same pod
/// there, and keeps it as the [`destination`]. Not inlined: the stack of the choice is short.
#[inline(never)]
pub fn known(packet: &Packet) -> bool {
    let Some((_, flow)) = maps::vip().and_then(|vip| of_client(packet, vip)) else {
        return false;
    };
    let Some(destination) = destination() else {
        return false;
    };
    let redirected = &flow.there.value;
    if !is_live(&redirected.backend) {
        return false;
    }
    destination.backend = redirected.backend;
    destination.through = 0;
    true
}

/// Removes the flow of a port whose client has closed it, as the packet opens another one from
/// there. Not inlined, as [`known`].
#[inline(never)]
pub fn forget_last(packet: &Packet) {
    if let Some((_, flow)) = maps::vip().and_then(|vip| of_client(packet, vip))
        && !flow.there.value.is_for(packet)
    {
        flows::forget(flow);
    }
}

/// Whether OWNERS shows the endpoint's pod at its IP. Not inlined, as [`known`].
#[inline(never)]
pub fn is_live(backend: &Backend) -> bool {
    maps::owner(&backend.addr) == Some(backend.uid)
}

/// Whether no other connection of the client looks like this one to the live endpoint, as far as is
/// known: see [`Redirected::TAKEN`].
#[inline(always)]
fn is_free(flow: &Flow, backend: &Backend) -> bool {
    let Some((_, other)) = of_endpoint(flow.at(backend)) else {
        return true;
    };
    let redirected = &other.there.value;
    other.there.key == *flow && redirected.flags & Redirected::TAKEN == 0
        || redirected.gives_way(flow.protocol, clock::now_ns())
}

/// Whether the flow that a packet opens may be redirected: no other connection may look like it to
/// the live endpoint. 0 if not. Global, as all that follow: each has the stack for itself, and the
/// verifier judges it once. Kernels before Linux 6.5 round each frame up to 32 octets, so that one
/// with a lookup of routes below it may have 320.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn admit() -> u32 {
    let (Some(packet), Some(destination)) = (maps::packet(), destination()) else {
        return 0;
    };
    u32::from(is_free(&Flow::to(packet), &destination.backend))
}

/// The packet, and the Service's address that its client asked for.
#[inline(always)]
fn aimed() -> Option<(&'static Packet, &'static Vip)> {
    Some((maps::packet()?, maps::vip()?))
}

/// Finds the interface through which a packet leaves to its [`destination`], and keeps it there; 0
/// where the node would not send it. Also 0 for a tunnel and an address of the node's own, which
/// was chosen for the way to the denied endpoint: the other node may expect it elsewhere (strict
/// `rp_filter`). Also 0 for a connection that opens, where larger packets go to the denied endpoint
/// than to this one: the error that tells the client is about an address that it has not called.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn next_hop(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    let (Some(packet), Some(destination)) = (skb.packet(), destination()) else {
        return 0;
    };
    let to = |dst, dst_port| Packet {
        dst,
        dst_port,
        ..*packet
    };
    let there = to(destination.backend.addr, destination.backend.port);
    let size = if packet.opens() { largest(context) } else { 0 };
    let Some(ifindex) = route_of(&skb, &there, size) else {
        return 0;
    };
    let own = || route(&skb, &to(packet.src, packet.src_port)).is_none();
    if maps::role(ifindex) == Some(Role::Tunnel) && own() {
        return 0;
    }
    destination.through = ifindex;
    ifindex
}

/// Octets of the largest IP packet that the interface takes. Linux 5.12.
#[inline(always)]
fn largest(context: *mut __sk_buff) -> u16 {
    let mut octets = 0;
    // SAFETY: takes the program's own context, and a number on the stack, where 0 asks for the
    // packet's own length.
    unsafe { bpf_check_mtu(context.cast(), 0, &raw mut octets, 0, 0) };
    octets.min(u16::MAX.into()) as u16
}

/// Stores where the flow of an admitted packet goes; 0 if that fails.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn enter(context: *mut __sk_buff) -> u32 {
    let skb = Skb::judged(context);
    u32::from(record(&skb).is_some())
}

/// Moves the flow of a packet to the map that its state belongs to; 0 if it is in none.
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

/// Drops and counts a packet that could not be sent.
#[inline(always)]
pub fn or_drop(skb: &Skb, sent: Option<i32>) -> i32 {
    sent.unwrap_or_else(|| {
        maps::count(Reason::Nothing, Outcome::RedirectFailed, skb.length());
        TC_ACT_SHOT
    })
}

#[inline(always)]
fn forward(skb: &Skb) -> Option<i32> {
    let packet = skb.packet()?;
    let ifindex = match destination()?.through {
        0 => next_hop(skb.as_ptr().cast()),
        found => found,
    };
    (ifindex != 0).then_some(())?;
    let backend = &destination()?.backend;
    let mut link = Link::from_skb(skb)?;
    link.readdress(packet, true, (backend.addr, backend.port))?;
    // SAFETY: takes numbers only.
    Some(unsafe { bpf_redirect_neigh(ifindex, null_mut(), 0, 0) } as i32)
}

/// Stores where the flow and its replies go; interfaces and neighbours may have changed since.
#[inline(always)]
fn record(skb: &Skb) -> Option<()> {
    let (packet, vip) = aimed()?;
    if destination()?.through == 0 && find_way(skb.as_ptr().cast(), Seeker::Replies as u32) == 0 {
        // While the agent lists the interfaces anew, none has a role.
        if maps::role(skb.ifindex()).is_some() {
            let (entry, _) = of_client(packet, vip)?;
            entry.take();
        }
        return None;
    }
    let (backend, way) = (&destination()?.backend, maps::way()?);
    let back = Return {
        target: packet.dst,
        ifindex: way.ifindex,
        target_port: packet.dst_port,
        reserved: 0,
        ethernet: Link::from_skb(skb)?.entering(way.station)?,
    };
    let flow = opening(packet)?;
    flow.back.key = flow.there.key.at(backend);
    let returns = flows::read_return(&mut flow.back).is_some() && flow.back.value == back;
    flow.back.value = back;
    let writable = || is_free(&flow.there.key, backend) && flows::record_return(flow);
    (returns || writable()).then_some(())?;
    if let Some(entry) = flows::redirected(&flow.there.key)
        && entry.read(&mut flow.there).is_some()
        && flow.there.value.backend == *backend
        && flow.there.value.vip == *vip
        && flow.there.value.flags & Redirected::TAKEN == 0
    {
        entry.touch();
        return Some(());
    }
    flow.there.value = Redirected {
        backend: *backend,
        vip: *vip,
        used_ns: clock::now_ns(),
        ..Redirected::default()
    };
    flows::open(flow).then_some(())
}

/// Moves a flow to the map that its state belongs to: to FLOWS once the client has proven its
/// handshake, to OPENING once both sides have closed.
#[inline(always)]
fn progress(skb: &Skb) -> Option<()> {
    let (packet, vip) = aimed()?;
    if packet.protocol != TCP {
        return None;
    }
    let (entry, flow) = of_client(packet, vip)?;
    let redirected = &mut flow.there.value;
    let mut flags = redirected.flags | closed_by_client(skb, packet);
    if flags & Redirected::PROVEN == 0 && !packet.opens() {
        let number = skb
            .read::<4>(packet.transport_at + 8)
            .map(u32::from_be_bytes)?;
        if redirected.is_proven_by(number) {
            flags |= Redirected::PROVEN;
        }
    }
    if flags & Redirected::RESET != 0 && !packet.opens() && !closes(skb, packet) {
        // A client that goes on sending has not reset the connection: the RST was forged.
        flags &= !(Redirected::RESET | Redirected::CLIENT_CLOSED | Redirected::ENDPOINT_CLOSED);
    }
    if flags != redirected.flags {
        if !shows_its_sender(skb, packet) {
            return Some(());
        }
        entry.set_flags(flags);
        redirected.flags = flags;
    }
    if redirected.flags & Redirected::PROVEN == 0 {
        return Some(());
    }
    let (closed, established) = (
        Redirected::is_closed(redirected.flags),
        flows::established(&flow.there.key).is_some(),
    );
    if closed && established {
        flows::close(flow)
    } else if !closed && !established {
        flows::establish(entry, flow)
    } else {
        Some(())
    }
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
