//! The live endpoint that a packet goes to, while the egress hook chooses what becomes of it.

use super::flows;
use super::pair::{of_client, of_endpoint};
use crate::route::{NoRoute, route, route_of_size};
use crate::skb::Skb;
use crate::work::Work;
use crate::{clock, maps};
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::bpf_check_mtu;
use epguard_common::{Addr, Backend, Flow, Packet, Redirected, Role};

/// Where a packet goes, as the egress hook has decided.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Destination {
    /// The live endpoint.
    pub backend: Backend,
    /// The interface towards it; 0: not looked up yet, and neither is the way of the replies.
    pub through: u32,
}

/// Sets the destination to the live endpoint of the packet's redirected flow, as long as OWNERS
/// shows the same pod there; false if the packet has none. Not inlined: the stack of the choice is
/// short.
#[inline(never)]
pub fn find_destination(work: &Work) -> bool {
    let Some((_, flow)) = of_client(work) else {
        return false;
    };
    let backend = &flow.there.value.backend;
    if !is_live(backend) {
        return false;
    }
    let destination = work.destination.get_mut();
    destination.backend = *backend;
    destination.through = 0;
    true
}

/// Removes the flow of a port whose client has closed it, as the packet opens another one from
/// there. Not inlined, as [`find_destination`].
#[inline(never)]
pub fn forget_closed(work: &Work) {
    if let Some((_, flow)) = of_client(work)
        && !flow.there.value.is_for(work.packet.get())
    {
        flows::forget(flow);
    }
}

/// Whether OWNERS shows the endpoint's pod at its IP. Not inlined, as [`find_destination`].
#[inline(never)]
pub fn is_live(backend: &Backend) -> bool {
    maps::owner(&backend.addr) == Some(backend.uid)
}

/// Whether no other connection of the client looks like this one to the live endpoint, as far as is
/// known: see [`Redirected::TAKEN`].
#[inline(always)]
pub fn is_free(flow: &Flow, backend: &Backend, work: &Work) -> bool {
    let Some((_, other)) = of_endpoint(flow.with_live_endpoint(backend), work) else {
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
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let flow = Flow::to(work.packet.get());
    u32::from(is_free(&flow, &work.destination.get().backend, work))
}

/// Whether the node can send a packet to its live endpoint, or why not. As a number, since global
/// functions return nothing else.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// The destination has the interface.
    Found = 0,
    /// The map of [`Work`] is missing.
    NoWork = 1,
    /// The node has no route to the endpoint.
    NoRoute = 2,
    /// The packet opens a connection, and larger packets go to the denied endpoint than to this
    /// one: the error that tells the client is about an address that it has not called.
    SmallerPackets = 3,
    /// The way is a tunnel, and the source an address of the node's own, which was chosen for the
    /// way to the denied endpoint: the other node may expect it elsewhere (strict `rp_filter`).
    OwnAddressInTunnel = 4,
}

/// Sets the interface through which a packet leaves to its destination, if there is one. Returns a
/// [`NextHop`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn next_hop(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return NextHop::NoWork as u32;
    };
    find_next_hop(&Skb::new(context, work)) as u32
}

#[inline(always)]
fn find_next_hop(skb: &Skb) -> NextHop {
    let packet = skb.work.packet.get();
    let destination = skb.work.destination.get_mut();
    let backend = &destination.backend;
    let size = if packet.opens() { largest(skb) } else { 0 };
    let there = aimed_at(packet, backend.addr, backend.port);
    let ifindex = match route_of_size(skb, &there, size) {
        Ok(ifindex) => ifindex,
        Err(NoRoute::None) => return NextHop::NoRoute,
        Err(NoRoute::SmallerPackets) => return NextHop::SmallerPackets,
    };
    if maps::role(ifindex) == Some(Role::Tunnel) {
        let back = aimed_at(packet, packet.src, packet.src_port);
        if route(skb, &back).is_none() {
            return NextHop::OwnAddressInTunnel;
        }
    }
    destination.through = ifindex;
    NextHop::Found
}

/// The packet with another destination.
#[inline(always)]
fn aimed_at(packet: &Packet, dst: Addr, dst_port: u16) -> Packet {
    Packet {
        dst,
        dst_port,
        ..*packet
    }
}

/// Octets of the largest IP packet that the interface takes. Linux 5.12.
#[inline(always)]
fn largest(skb: &Skb) -> u16 {
    let mut octets = 0;
    // SAFETY: takes the program's own context, and a number on the stack, where 0 asks for the
    // packet's own length.
    unsafe { bpf_check_mtu(skb.as_ptr(), 0, &raw mut octets, 0, 0) };
    octets.min(u16::MAX.into()) as u16
}
