//! Lookups in the node's routes.

use crate::frame::Frame;
use crate::link::mac_words;
use crate::maps;
use crate::skb::Skb;
use crate::work::Work;
use crate::xdp_frame::XdpFrame;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::{__sk_buff, bpf_fib_lookup as RouteLookup, xdp_md};
use aya_ebpf::helpers::generated::bpf_fib_lookup;
use core::mem::MaybeUninit;
use epguard_common::{Addr, Packet, Role};

/// The interface to which the node routes the source of the packet; 0 if it is one of the node's
/// own addresses, or nothing leads there. Global: one copy of the lookup, with
/// a stack of its own. Linux 5.6.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn source_interface(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let packet = work.packet.get();
    let back = Packet {
        src: packet.dst,
        dst: packet.src,
        src_port: packet.dst_port,
        dst_port: packet.src_port,
        ..*packet
    };
    route(&Skb::new(context, work), &back).unwrap_or(0)
}

/// Whether the source of a packet shows its sender; 0 if not: a process of this node, or a client
/// that the node has a route to. Several masqueraded clients may share one address and port: only
/// conntrack can distinguish them.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn names_its_sender(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let skb = Skb::new(context, work);
    let known_client = skb.came_in_at() == 0 || source_interface(context) != 0;
    u32::from(known_client && shows_its_sender(&skb))
}

/// Whether a packet at an egress hook entered where the node routes its source, so that it shows
/// its sender: any other may be forged. All pods behind one bridge count as one.
#[inline(always)]
pub fn shows_its_sender(skb: &Skb) -> bool {
    let came_in_at = skb.came_in_at();
    if came_in_at == 0 {
        return true;
    }
    let from_pod = maps::role(came_in_at) == Some(Role::Pod);
    match source_interface(skb.as_ptr().cast()) {
        // An address of the node, for a masqueraded client. A bridge forwards a frame with any
        // source.
        0 => !from_pod || !leads_to_bridge(skb),
        there => there == came_in_at || from_pod && maps::role(there) == Some(Role::Bridge),
    }
}

#[inline(always)]
fn leads_to_bridge(skb: &Skb) -> bool {
    route(skb, skb.work.packet.get()).and_then(maps::role) == Some(Role::Bridge)
}

/// Where the node sends the packet next, or with `to_range` not 0 one to the range of its
/// destination, an orphan IP: if these differ, another way was announced, for the IP or for a part
/// of the range. As [`hop`]. Global, as [`source_interface`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn hop_of(context: *mut __sk_buff, to_range: u32) -> u64 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    hop_of_frame(&Skb::new(context, work), to_range)
}

/// The same before an skb is made.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn early_hop_of(context: *mut xdp_md, to_range: u32) -> u64 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    hop_of_frame(&XdpFrame::new(context, work), to_range)
}

#[inline(always)]
fn hop_of_frame<F: Frame>(frame: &F, to_range: u32) -> u64 {
    let packet = frame.work().packet.get();
    let mut dst = packet.dst;
    if to_range != 0
        && let Some(found) = maps::terminated(&dst)
    {
        // SAFETY: a field of an entry that stays there for the run of the program, of integers.
        let range = unsafe { (&raw const (*found.entry).range).read_volatile() };
        // An entry of an earlier agent has none.
        if !is_unset(&range) {
            dst = range;
        }
    }
    hop(frame, packet, dst)
}

#[inline(always)]
fn is_unset(addr: &Addr) -> bool {
    let [first, second, third, last] = addr.words();
    first | second | third | last == 0
}

/// Where the node sends a packet next, if it goes to `dst`: the interface, and below it the sum of
/// the gateway's words, 0 without one. 0 where the node would not forward it.
#[inline(always)]
fn hop<F: Frame>(frame: &F, packet: &Packet, dst: Addr) -> u64 {
    let mut memory = MaybeUninit::uninit();
    let route = zeroed(&mut memory);
    if !is_forwarded(ask(frame, packet, dst, route)) {
        return 0;
    }
    // SAFETY: words of the kernel's answer, in the place of the destination.
    let [a, b, c, d] = unsafe { route.__bindgen_anon_4.ipv6_dst };
    let [first, second, third, last] = dst.words();
    // Without a gateway the kernel leaves the destination there. One of IPv4 has a word.
    let is_direct = if dst.is_v4() {
        a == last
    } else {
        a == first && b == second && c == third && d == last
    };
    let gateway = u64::from(a) + (u64::from(b) << 1) + (u64::from(c) << 2) + (u64::from(d) << 3);
    let interface = u64::from(route.ifindex) << GATEWAY_BITS;
    if is_direct {
        interface
    } else {
        interface | gateway
    }
}

/// Whether the node sends a packet to a gateway, by what [`hop`] returned.
#[inline(always)]
pub const fn has_gateway(hop: u64) -> bool {
    hop & ((1 << GATEWAY_BITS) - 1) != 0
}

/// A sum of four words, each with a weight of its own, has so many.
const GATEWAY_BITS: u32 = 36;

/// An interface by which packets leave.
pub struct Exit {
    pub ifindex: u32,
    /// Its own link-layer address, in transmission order. Zero without one, and while the next
    /// hop's is not known.
    pub station: [u16; 3],
}

/// The interface by which the node would forward the packet, as [`route`].
#[inline(always)]
pub fn exit<F: Frame>(frame: &F, packet: &Packet) -> Option<Exit> {
    let mut memory = MaybeUninit::uninit();
    let route = zeroed(&mut memory);
    let answer = ask(frame, packet, packet.dst, route);
    if !is_forwarded(answer) {
        return None;
    }
    Some(Exit {
        ifindex: route.ifindex,
        station: mac_words(route.smac),
    })
}

/// The interface by which the node would forward the packet; `None` where it would not, also if it
/// sends the sender an error.
///
/// With no flags the kernel applies the routing rules (`ip rule`) for a packet that enters through
/// the frame's interface (in a VRF: the VRF's table); `BPF_FIB_LOOKUP_DIRECT` would skip the rules,
/// `BPF_FIB_LOOKUP_OUTPUT` apply those for a packet that leaves there. The packet's mark is taken
/// for 0: rules by mark would take `BPF_FIB_LOOKUP_MARK`, Linux 6.10. The helper: 4.18; the
/// interface of a hop whose neighbour is unknown: 5.10.
#[inline(always)]
pub fn route<F: Frame>(frame: &F, packet: &Packet) -> Option<u32> {
    route_of_size(frame, packet, 0).ok()
}

/// Why the node would not send a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// It has no route, or forbids the way.
    None,
    /// The way takes only smaller packets.
    SmallerPackets,
}

/// As [`route`], of a packet of so many octets, in one piece. 0: of any size.
#[inline(always)]
pub fn route_of_size<F: Frame>(frame: &F, packet: &Packet, octets: u16) -> Result<u32, NoRoute> {
    let mut memory = MaybeUninit::uninit();
    let route = zeroed(&mut memory);
    route.__bindgen_anon_1.tot_len = octets;
    match ask(frame, packet, packet.dst, route) {
        FRAGMENTATION_NEEDED if octets != 0 => Err(NoRoute::SmallerPackets),
        answer if is_forwarded(answer) => Ok(route.ifindex),
        _ => Err(NoRoute::None),
    }
}

/// True if the answer names the interface by which the node would forward the packet.
#[inline(always)]
const fn is_forwarded(answer: i64) -> bool {
    matches!(answer, SUCCESS | NO_NEIGHBOUR | FRAGMENTATION_NEEDED)
}

/// Looks up the route of a packet that goes to `dst`; `BPF_FIB_LKUP_RET_*`.
#[inline(always)]
fn ask<F: Frame>(frame: &F, packet: &Packet, dst: Addr, route: &mut RouteLookup) -> i64 {
    route.l4_protocol = packet.protocol;
    route.sport = packet.src_port.to_be();
    route.dport = packet.dst_port.to_be();
    route.ifindex = frame.ifindex();
    let src = packet.src.words();
    let is_v4 = dst.is_v4();
    let dst = dst.words();
    if is_v4 {
        route.family = AF_INET;
        route.__bindgen_anon_3.ipv4_src = src[3];
        route.__bindgen_anon_4.ipv4_dst = dst[3];
    } else {
        route.family = AF_INET6;
        route.__bindgen_anon_3.ipv6_src = src;
        route.__bindgen_anon_4.ipv6_dst = dst;
    }
    // SAFETY: the program's own context, and as many octets as the struct has.
    unsafe { bpf_fib_lookup(frame.as_ptr(), &raw mut *route, ROUTE_SIZE, 0) }
}

/// Word by word: the compiler makes a call of anything shorter, and a call needs a stack of its
/// own.
#[inline(always)]
fn zeroed(memory: &mut MaybeUninit<RouteLookup>) -> &mut RouteLookup {
    let words = memory.as_mut_ptr().cast::<u32>();
    for word in 0..size_of::<RouteLookup>() / size_of::<u32>() {
        // SAFETY: inside of the struct.
        unsafe { words.add(word).write_volatile(0) };
    }
    // SAFETY: an all-zero bpf_fib_lookup is a valid one.
    unsafe { memory.assume_init_mut() }
}

#[allow(clippy::cast_possible_wrap, reason = "64 octets")]
const ROUTE_SIZE: i32 = size_of::<RouteLookup>() as i32;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `BPF_FIB_LKUP_RET_*` of linux/bpf.h.
const SUCCESS: i64 = 0;
const NO_NEIGHBOUR: i64 = 7;
const FRAGMENTATION_NEEDED: i64 = 8;
