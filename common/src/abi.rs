//! Map keys and map values: `repr(C)`, fixed width, no implicit padding, all-zero is safe.
//!
//! Addresses and UIDs are octets in network order; ports and everything else are host order, so
//! that `bpftool map dump` shows ports as people know them. A change here is a new [`ABI_VERSION`],
//! because a pinned map of another shape would be misread.

use crate::{Addr, Packet, Rate, Uid};

/// Part of the pin path: `<pin-dir>/v3/OWNERS`.
pub const ABI_VERSION: u32 = 3;

/// `skb->tc_index` of packets that epguard has rewritten: its own answers, and replies of
/// redirected flows. The hook that one passes next must not take it for a packet of the pod that it
/// shows. The low five bits, which Cilium uses, are clear.
pub const ANSWER: u32 = 0x7ec0;

/// Source of the Ethernet header of packets that enter the stack in the name of an endpoint, in
/// transmission order: locally administered, and no interface's. The holder's own address there
/// would teach bridges where the holder is not.
pub const ANSWER_MAC: [u8; 6] = [0x02, b'e', b'p', b'g', 0, 0];

/// OWNERS: IP -> the pod that publishes it. For people, reports and audits, and for redirected
/// flows: they go only to a pod that still has its IP. No packet passes because of it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The pod.
    pub uid: Uid,
    /// Counts the owners that this IP has had in this agent's life.
    pub generation: u64,
    /// When the claim was first seen, nanoseconds of `CLOCK_BOOTTIME`.
    pub since_ns: u64,
    /// [`Owner::DRAINING`], [`Owner::CONFLICT`].
    pub flags: u32,
    /// Always 0.
    pub reserved: u32,
}

impl Owner {
    /// The pod is terminating.
    pub const DRAINING: u32 = 1;
    /// Another live pod claims the IP too.
    pub const CONFLICT: u32 = 2;
}

/// SUSPECTS: the IPs that the fast path looks up more for.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Suspect {
    /// The dead or retired pod; none for an IP that only drains.
    pub dead_uid: Uid,
    /// [`Suspect::DENIED`], [`Suspect::DRAINING`].
    pub flags: u32,
    /// Always 0.
    pub reserved: u32,
    /// How many events were sent; written by the programs.
    pub rate: Rate,
}

impl Suspect {
    /// At least one denial.
    pub const DENIED: u32 = 1;
    /// A terminating pod holds the IP: packets pass and are counted.
    pub const DRAINING: u32 = 2;
}

/// Key of SERVICES: the destination of a packet before DNAT.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Vip {
    /// ClusterIP, externalIP, load-balancer IP, or a node's address for a NodePort.
    pub addr: Addr,
    /// Host order.
    pub port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: u8,
}

impl Vip {
    /// The destination of a packet. In words: the kernel reads keys so, and has to wait where
    /// smaller fields were written.
    #[inline(always)]
    pub const fn of(packet: &Packet) -> Self {
        let [a, b, c, d] = packet.dst.words();
        let [p0, p1] = packet.dst_port.to_ne_bytes();
        let words = [a, b, c, d, u32::from_ne_bytes([p0, p1, packet.protocol, 0])];
        // SAFETY: both are 20 octets without padding, and every bit pattern is a Vip.
        unsafe { core::mem::transmute(words) }
    }
}

/// Value of SERVICES, behind its key: the number of a Service with a denial.
///
/// No number is given twice while the maps exist: a denial of an earlier Service denies nothing of
/// a later one.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ServiceNumber {
    /// From 1 on.
    pub number: u32,
}

impl ServiceNumber {
    /// No Service.
    pub const NONE: Self = Self { number: 0 };

    /// Whether this names a Service.
    #[inline]
    pub const fn is_some(self) -> bool {
        self.number != 0
    }
}

/// Key of DENIED: an endpoint of a Service.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DenialKey {
    /// The endpoint's IP, which is the packet's destination after DNAT.
    pub addr: Addr,
    /// The Service that the packet was aimed at.
    pub service: ServiceNumber,
    /// The endpoint's port, host order.
    pub port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: u8,
}

impl DenialKey {
    /// The endpoint that a packet for a Service leaves for. In words, as [`Vip::of`].
    #[inline(always)]
    pub const fn new(addr: Addr, service: ServiceNumber, port: u16, protocol: u8) -> Self {
        let [a, b, c, d] = addr.words();
        let [p0, p1] = port.to_ne_bytes();
        let words = [
            a,
            b,
            c,
            d,
            service.number,
            u32::from_ne_bytes([p0, p1, protocol, 0]),
        ];
        // SAFETY: both are 24 octets without padding, and every bit pattern is a DenialKey.
        unsafe { core::mem::transmute(words) }
    }

    /// The key in `DENIAL_COUNTS` of a denial for `terminated`: an IP, for every Service and port.
    #[inline(always)]
    pub const fn of_ip(addr: Addr) -> Self {
        Self::new(addr, ServiceNumber::NONE, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BUCKETS, Backend, Backends, Call, Connection, Count, DenialCount, Entry, Event, Flow, Gate,
        Mac, Rate, RawConfig, RawDenial, RawRole, Redirected, Return, Terminated, Tuple, View,
    };

    #[test]
    fn layouts_are_as_pinned_and_hold_no_implicit_padding() {
        assert_eq!(size_of::<Addr>(), 16);
        assert_eq!(size_of::<Uid>(), 16);
        assert_eq!(size_of::<RawConfig>(), 30 * 4);
        assert_eq!(size_of::<View>(), 8 + 10 * 4);
        assert_eq!(size_of::<Owner>(), 16 + 8 + 8 + 4 + 4);
        assert_eq!(size_of::<Suspect>(), 16 + 4 + 4 + size_of::<Rate>());
        assert_eq!(size_of::<Vip>(), 16 + 2 + 1 + 1);
        assert_eq!(size_of::<DenialKey>(), 16 + 4 + 2 + 1 + 1);
        assert_eq!(size_of::<ServiceNumber>(), 4);
        assert_eq!(size_of::<Count>(), 3 * 8);
        assert_eq!(size_of::<DenialCount>(), 5 * 3 * 8 + 8);
        assert_eq!(size_of::<RawDenial>(), 3 * 16 + 5 * 4);
        assert_eq!(size_of::<Rate>(), 8 + 4 + 4 + 8);
        assert_eq!(
            size_of::<Terminated>(),
            16 + 4 * 8 + size_of::<Rate>() + 4 + 4
        );
        assert_eq!(size_of::<RawRole>(), 4);
        assert_eq!(size_of::<Mac>(), 6 + 2);
        assert_eq!(size_of::<Backend>(), 16 + 16 + 2 + 2);
        assert_eq!(size_of::<Backends>(), 4 + 4 + 16 * 36);
        assert_eq!(size_of::<Flow>(), 2 * 16 + 2 * 2 + 1 + 3);
        assert_eq!(size_of::<Redirected>(), 36 + 20 + 4 + 4 + 8);
        assert_eq!(size_of::<Return>(), 16 + 4 + 2 + 2 + 12);
        assert_eq!(size_of::<Gate>(), 4 + BUCKETS);
        assert_eq!(size_of::<Call>(), 8 + 4 + 4 + 20 + 4);
        assert_eq!(size_of::<Connection>(), 8 + 20 + 20 + 4 + 4);
        // conntrack's own.
        assert_eq!(size_of::<Tuple>(), 40);
        assert_eq!(size_of::<Entry>(), 40 + 16 + 40);
        assert_eq!(size_of::<Event>(), 8 + 4 * 16 + 5 * 4 + 2 + 2 + 1 + 3 + 4);
    }
}
