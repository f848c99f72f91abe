//! The frame of a TC program: an skb.

use crate::clock::Clock;
use crate::frame::{Frame, Origin};
use crate::linear::Linear;
use crate::maps;
use crate::reject::{Seeker, find_way};
use crate::route::{has_gateway, hop_of, source_interface};
use crate::work::Work;
use aya_ebpf::helpers::generated::{
    bpf_skb_load_bytes_relative, bpf_skb_pull_data, bpf_skb_vlan_pop,
};
use aya_ebpf::{EbpfContext, bindings::__sk_buff};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use epguard_common::protocol::{ICMP, ICMPV6, IPV4, IPV6};
use epguard_common::{ANSWER, Bytes, Mode, Packet, Role, View, is_vlan_tag, parse, parse_plain};

/// Offsets from the network header, wherever the device puts it: `BPF_HDR_START_NET`, Linux 5.0 in
/// TC programs.
const FROM_NETWORK_HEADER: u32 = 1;

/// Of `linux/if_packet.h`: addressed to the device's own link-layer address, or the node's own
/// packet.
const PACKET_HOST: u32 = 0;

/// The frame of a TC program.
pub struct Skb<'a> {
    context: *mut __sk_buff,
    /// What the program has found out about it.
    pub work: &'a Work,
    clock: Clock,
}

impl EbpfContext for Skb<'_> {
    #[inline(always)]
    fn as_ptr(&self) -> *mut c_void {
        self.context.cast()
    }
}

impl Origin for Skb<'_> {
    #[inline(always)]
    fn length(&self) -> u32 {
        // SAFETY: a field of the program's own context.
        unsafe { (*self.context).len }
    }

    #[inline(always)]
    fn ifindex(&self) -> u32 {
        // SAFETY: a field of the program's own context.
        unsafe { (*self.context).ifindex }
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
}

impl Frame for Skb<'_> {
    const IS_LAST: bool = true;

    #[inline(always)]
    fn work(&self) -> &Work {
        self.work
    }

    #[inline(always)]
    fn can_reject(&self, _: &Packet) -> bool {
        true
    }

    #[inline(always)]
    fn ether_type(&self) -> u16 {
        // SAFETY: a field of the program's own context. Network order in the low 16 bits.
        u16::from_be(unsafe { (*self.context).protocol } as u16)
    }

    #[inline(always)]
    fn is_to_many(&self) -> bool {
        // SAFETY: a field of the program's own context. PACKET_BROADCAST, PACKET_MULTICAST.
        matches!(unsafe { (*self.context).pkt_type }, 1 | 2)
    }

    /// At the egress hook, of a packet that the node has routed: a bridge hands on frames for other
    /// hosts.
    #[inline(always)]
    fn leaves(&self, _: &Packet) -> bool {
        // SAFETY: a field of the program's own context.
        let kind = unsafe { (*self.context).pkt_type };
        kind == PACKET_HOST && maps::role(self.ifindex()).is_some_and(Role::leads_out)
    }

    /// A device over this one, as macvlan, sends in the name of another host.
    #[inline(always)]
    fn is_routed(&self) -> bool {
        match self.came_in_at() {
            0 => source_interface(self.as_ptr().cast()) == 0,
            came_in_at => maps::role(came_in_at).is_some(),
        }
    }

    #[inline(always)]
    fn follows_range(&self) -> bool {
        let own = hop_of(self.context, 0);
        // On the link of an uplink the kernel sends only where a host has answered.
        let is_certain = has_gateway(own) || maps::role(self.ifindex()) == Some(Role::Tunnel);
        own != 0 && is_certain && own == hop_of(self.context, 1)
    }

    #[inline(always)]
    fn has_way(&self) -> bool {
        find_way(self.as_ptr().cast(), Seeker::AfterDnat as u32) != 0
    }
}

/// As [`parse_packet`]; the usual shape first, in place. Not inlined: its stack is free again for
/// the verdict.
#[inline(never)]
pub fn parse_any(context: *mut __sk_buff, work: &Work) -> bool {
    parse_usual(context, work) || parse_packet(context, work)
}

/// Sets the packet, of any shape; false if it is no IP packet, or not whole enough to judge.
#[inline(always)]
pub fn parse_packet(context: *mut __sk_buff, work: &Work) -> bool {
    let parsed = parse_linear(context) != 0;
    // The type of ICMP lies behind all that the parser reads.
    let is_whole = parsed && !is_icmp(work.packet.get());
    if !is_whole && pull_headers(context) {
        return parse_linear(context) != 0;
    }
    parsed
}

/// As [`parse_packet`], from the linear part. Global, with the result in a map: otherwise the
/// verifier follows each path of the parser through all code behind it. Linux 5.6.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn parse_linear(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    if parse_usual(context, work) {
        return 1;
    }
    let skb = Skb::new(context, work);
    let Some(packet) = parse(&skb, skb.ether_type()) else {
        return 0;
    };
    work.packet.set(packet);
    1
}

/// Sets a packet of the usual shape; false for any other.
#[inline(always)]
fn parse_usual(context: *mut __sk_buff, work: &Work) -> bool {
    let Some(frame) = Linear::from_context(context) else {
        return false;
    };
    let Some(packet) = parse_plain(&frame, frame.ether_type()) else {
        return false;
    };
    if is_icmp(&packet) {
        return false;
    }
    work.packet.set(packet);
    true
}

#[inline(always)]
fn is_icmp(packet: &Packet) -> bool {
    packet.protocol == ICMP || packet.protocol == ICMPV6
}

/// Moves headers that lie in pages to the linear part, which is all that
/// `bpf_skb_load_bytes_relative` reads. False if the linear part has them, as nearly always.
///
/// Packets that the kernel merged (GSO) are left as they are: their headers are linear, and a pull
/// from a list of fragments may crash the kernel later, when it segments them
/// (projectcalico/calico#11424).
#[inline(always)]
fn pull_headers(context: *mut __sk_buff) -> bool {
    // SAFETY: fields of the program's own context.
    let (start, end, length, protocol, gso_size) = unsafe {
        let context = &*context;
        (
            context.data,
            context.data_end,
            context.len,
            context.protocol as u16,
            context.gso_size,
        )
    };
    let wanted = length.min(HEADERS);
    let may_be_judged =
        matches!(u16::from_be(protocol), IPV4 | IPV6) || is_vlan_tag(u16::from_be(protocol));
    if end - start >= wanted || gso_size != 0 || !may_be_judged {
        return false;
    }
    // SAFETY: takes the program's own context and a number. No pointer into the packet is used
    // afterwards.
    unsafe { bpf_skb_pull_data(context, wanted) == 0 }
}

/// Octets of a frame that hold all headers that decide. Packets with longer chains of IPv6
/// extension headers in pages pass.
const HEADERS: u32 = 512;

impl Bytes for Skb<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.load(offset)
    }

    #[inline(always)]
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.load(offset)
    }
}

impl<'a> Skb<'a> {
    /// The frame of a TC program.
    #[inline(always)]
    pub const fn new(context: *mut __sk_buff, work: &'a Work) -> Self {
        Self {
            context,
            work,
            clock: Clock::new(),
        }
    }

    /// Whether a VLAN tag lies beside the frame, where the kernel or the device puts it.
    #[inline(always)]
    pub fn is_tagged(&self) -> bool {
        // SAFETY: a field of the program's own context.
        unsafe { (*self.context).vlan_present != 0 }
    }

    /// Takes off the VLAN tag beside the frame.
    #[inline(always)]
    pub fn remove_tag(&self) -> Option<()> {
        // SAFETY: takes the program's own context.
        let failed = unsafe { bpf_skb_vlan_pop(self.context) };
        if failed != 0 {
            return None;
        }
        Some(())
    }

    /// `T` is an array of integers: every bit pattern is one.
    #[inline(always)]
    fn load<T: Copy>(&self, offset: u32) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the helper fills all of T or fails; the context is the program's own.
        unsafe {
            let to = value.as_mut_ptr().cast();
            let size = size_of::<T>() as u32;
            let failed =
                bpf_skb_load_bytes_relative(self.as_ptr(), offset, to, size, FROM_NETWORK_HEADER);
            (failed == 0).then(|| value.assume_init())
        }
    }

    /// The interface at which a forwarded packet entered the node's stack; 0 for one of the node's
    /// own.
    #[inline(always)]
    pub fn came_in_at(&self) -> u32 {
        // SAFETY: a field of the program's own context.
        unsafe { (*self.context).ingress_ifindex }
    }

    /// Whether the packet is an answer of epguard: it shows no holder of its source. A pod that
    /// forges the mark hides only itself.
    #[inline(always)]
    pub fn is_answer(&self) -> bool {
        // SAFETY: a field of the program's own context.
        unsafe { (*self.context).tc_index == ANSWER }
    }

    /// Marks a rewritten packet as an answer of epguard, and clears `skb->mark` (Cilium keeps the
    /// sender's identity there, Calico its verdicts).
    #[inline(always)]
    pub fn make_answer(&self) {
        // SAFETY: fields of the program's own context that TC programs may write.
        unsafe {
            (*self.context).mark = 0;
            (*self.context).tc_index = ANSWER;
        }
    }

    /// Whether a mode is on, and the agent has renewed the lease in time.
    #[inline(always)]
    pub fn is_in_force(&self, view: &View) -> bool {
        maps::config().is_some_and(|(_, mode)| mode != Mode::Off)
            && view.lease_is_valid(self.now_ns())
    }
}
