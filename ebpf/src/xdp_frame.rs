//! The frame of an XDP program. There is no skb yet: the program skips the Ethernet header itself.
//! Devices without one have no native XDP.

use crate::clock::Clock;
use crate::frame::{Frame, Origin};
use crate::linear::{Linear, addressed};
use crate::link::ETHERNET;
use crate::maps;
use crate::route::{early_hop_of, has_gateway, route};
use crate::work::Work;
use aya_ebpf::helpers::generated::{bpf_xdp_get_buff_len, bpf_xdp_load_bytes};
use aya_ebpf::{EbpfContext, bindings::xdp_md};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use epguard_common::protocol::TCP;
use epguard_common::{Bytes, Packet, Role, is_vlan_tag, options_length, parse, parse_plain};

/// The frame of an XDP program.
pub struct XdpFrame<'a> {
    context: *mut xdp_md,
    /// What the program has found out about it.
    pub work: &'a Work,
    clock: Clock,
}

impl EbpfContext for XdpFrame<'_> {
    #[inline(always)]
    fn as_ptr(&self) -> *mut c_void {
        self.context.cast()
    }
}

impl Origin for XdpFrame<'_> {
    #[inline(always)]
    fn length(&self) -> u32 {
        // SAFETY: takes the program's own context; Linux 5.18.
        unsafe { bpf_xdp_get_buff_len(self.context) as u32 }
    }

    #[inline(always)]
    fn ifindex(&self) -> u32 {
        // SAFETY: a field of the program's own context.
        unsafe { (*self.context).ingress_ifindex }
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
}

impl Frame for XdpFrame<'_> {
    const IS_LAST: bool = false;

    #[inline(always)]
    fn work(&self) -> &Work {
        self.work
    }

    /// Only an answer that is no longer than the packet: a RST, to a packet without IP options.
    #[inline(always)]
    fn can_reject(&self, packet: &Packet) -> bool {
        packet.protocol == TCP
            && options_length(packet) == 0
            && maps::mac(self.ifindex()).is_some_and(|mac| mac.sends != 0)
    }

    #[inline(always)]
    fn ether_type(&self) -> u16 {
        Linear::of_xdp(self.context).map_or(0, |frame| frame.ether_type())
    }

    #[inline(always)]
    fn is_to_many(&self) -> bool {
        self.load::<[u8; 1]>(0).is_none_or(|[first]| first & 1 != 0)
    }

    /// Predicted by the node's routes, which apply to frames that are addressed to this host. The
    /// program doesn't see a VLAN tag that the device has removed: the agent attaches only where
    /// none is expected.
    #[inline(always)]
    fn leaves(&self, packet: &Packet) -> bool {
        let Some(mac) = maps::mac(self.ifindex()) else {
            return false;
        };
        addressed(self.context) == Some(mac.octets)
            && !is_vlan_tag(self.ether_type())
            && route(self, packet)
                .and_then(maps::role)
                .is_some_and(Role::leads_out)
    }

    /// Frames to the host itself are.
    #[inline(always)]
    fn is_routed(&self) -> bool {
        true
    }

    #[inline(always)]
    fn follows_range(&self) -> bool {
        let own = early_hop_of(self.context, 0);
        has_gateway(own) && own == early_hop_of(self.context, 1)
    }

    /// An answer leaves where the packet enters.
    #[inline(always)]
    fn has_way(&self) -> bool {
        true
    }
}

impl Bytes for XdpFrame<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.load(ETHERNET + offset)
    }

    #[inline(always)]
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.load(ETHERNET + offset)
    }
}

impl<'a> XdpFrame<'a> {
    /// The frame of an XDP program.
    #[inline(always)]
    pub const fn new(context: *mut xdp_md, work: &'a Work) -> Self {
        Self {
            context,
            work,
            clock: Clock::new(),
        }
    }

    /// Sets the packet; false if it is no IP packet, or not whole enough to judge.
    #[inline(always)]
    pub fn parse(&self) -> bool {
        if let Some(frame) = Linear::of_xdp(self.context)
            && let Some(packet) = parse_plain(&frame, frame.ether_type())
        {
            self.work.packet.set(packet);
            return true;
        }
        let Some(packet) = parse(self, self.ether_type()) else {
            return false;
        };
        self.work.packet.set(packet);
        true
    }

    /// From the start of the frame. `T` is an array of integers: every bit pattern is one. Linux
    /// 5.18.
    #[inline(always)]
    pub fn load<T: Copy>(&self, offset: u32) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the helper fills all of T or fails; the context is the program's own.
        unsafe {
            let to = value.as_mut_ptr().cast();
            let failed = bpf_xdp_load_bytes(self.context, offset, to, size_of::<T>() as u32);
            (failed == 0).then(|| value.assume_init())
        }
    }
}
