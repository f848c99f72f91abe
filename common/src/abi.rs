//! Map keys and map values: `repr(C)`, fixed width, no implicit padding, all-zero is safe.
//!
//! Addresses and UIDs are octets in network order; ports and everything else are host order, so that
//! `bpftool map dump` shows ports as people know them. A change here is a new [`ABI_VERSION`], because a
//! pinned map of another shape would be misread.

use crate::{Addr, Packet, Rate, Uid};

/// Part of the pin path: `<pin-dir>/v2/OWNERS`.
pub const ABI_VERSION: u32 = 2;

/// OWNERS: IP -> the pod that publishes it. For people, reports and audits, and for redirected flows: they go only to a
/// pod that still has its IP. No packet passes because of it.
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
    /// The destination of a packet. In words: the kernel reads keys so, and has to wait where smaller fields were written.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as parse")]
    pub const fn of(packet: &Packet) -> Self {
        let [a, b, c, d] = packet.dst.words();
        let [p0, p1] = packet.dst_port.to_ne_bytes();
        let words = [a, b, c, d, u32::from_ne_bytes([p0, p1, packet.protocol, 0])];
        // SAFETY: both are 20 octets without padding, and every bit pattern is a Vip.
        unsafe { core::mem::transmute(words) }
    }
}

/// Value of SERVICES, behind its key.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Affected {
    /// The Service.
    pub slot: Slot,
    /// Always 0.
    pub reserved: u16,
}

impl From<Slot> for Affected {
    fn from(slot: Slot) -> Self {
        Self { slot, reserved: 0 }
    }
}

/// The intent that a packet carries: the number of an affected Service, 0: none.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Slot {
    /// Sparse on purpose, see [`Slot::FIRST`].
    pub number: u16,
}

impl Slot {
    /// No Service.
    pub const NONE: Self = Self { number: 0 };
    /// Slots lie in the upper half of 16 bits: another program's class ids that end up in `tc_index` are small.
    pub const FIRST: u16 = 0x8000;

    /// The intent that a packet carries; a number that is no slot belongs to another program.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "just compared with u16::MAX")]
    pub const fn from_raw(raw: u32) -> Self {
        if raw >= Self::FIRST as u32 && raw <= u16::MAX as u32 {
            Self { number: raw as u16 }
        } else {
            Self::NONE
        }
    }

    /// Whether this names a Service.
    #[inline]
    #[must_use]
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
    pub slot: Slot,
    /// The endpoint's port, host order.
    pub port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: [u8; 3],
}

impl DenialKey {
    /// The endpoint that a packet leaves for. In words, as [`Vip::of`].
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as parse")]
    pub const fn of(packet: &Packet, slot: Slot) -> Self {
        let [a, b, c, d] = packet.dst.words();
        let ([s0, s1], [p0, p1]) = (slot.number.to_ne_bytes(), packet.dst_port.to_ne_bytes());
        let (fields, protocol) = ([s0, s1, p0, p1], [packet.protocol, 0, 0, 0]);
        let words = [
            a,
            b,
            c,
            d,
            u32::from_ne_bytes(fields),
            u32::from_ne_bytes(protocol),
        ];
        // SAFETY: both are 24 octets without padding, and every bit pattern is a DenialKey.
        unsafe { core::mem::transmute(words) }
    }

    /// The key in `DENIAL_COUNTS` of a denial for `terminated`: an IP, for every Service and port.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as parse")]
    pub const fn of_ip(addr: Addr) -> Self {
        Self {
            addr,
            slot: Slot::NONE,
            port: 0,
            protocol: 0,
            reserved: [0; 3],
        }
    }
}

/// SOCKETS, by socket cookie: the Services that a socket of the node itself is aimed at. The rules are its methods.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketIntent {
    /// When the entry was made, `CLOCK_BOOTTIME`.
    pub made_ns: u64,
    /// When the last datagram with an address of its own was sent, `CLOCK_BOOTTIME`.
    pub sent_ns: u64,
    /// Datagrams with an address of their own that were sent.
    pub handed: u32,
    /// How many of them have left.
    pub left: u32,
    /// The thread that sends them.
    pub thread: u32,
    /// Where the last one is aimed.
    pub sent: Slot,
    /// Where the socket is connected.
    pub connected: Slot,
    /// Not 0: several threads send them.
    pub shared: u16,
    /// Not 0: the socket had sent nothing by then, so the hooks have seen every datagram of it.
    pub fresh: u16,
    /// Always 0.
    pub reserved: [u16; 2],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Count, DenialCount, Event, Mode, RawConfig, View};

    #[test]
    fn layouts_are_as_pinned_and_hold_no_implicit_padding() {
        assert_eq!(size_of::<Addr>(), 16);
        assert_eq!(size_of::<Uid>(), 16);
        assert_eq!(size_of::<RawConfig>(), 17 * 4);
        assert_eq!(size_of::<View>(), 3 * 8 + 6 * 4 + 2 * 2 + 4);
        assert_eq!(size_of::<Owner>(), 16 + 8 + 8 + 4 + 4);
        assert_eq!(size_of::<Suspect>(), 16 + 4 + 4 + size_of::<Rate>());
        assert_eq!(size_of::<Vip>(), 16 + 2 + 1 + 1);
        assert_eq!(size_of::<DenialKey>(), 16 + 2 + 2 + 1 + 3);
        assert_eq!(size_of::<Affected>(), 2 + 2);
        assert_eq!(size_of::<SocketIntent>(), 2 * 8 + 3 * 4 + 3 * 2 + 6);
        assert_eq!(size_of::<Count>(), 3 * 8);
        assert_eq!(size_of::<DenialCount>(), 5 * 3 * 8 + 8);
        assert_eq!(size_of::<Event>(), 8 + 4 * 16 + 4 * 4 + 2 + 2 + 2 + 1 + 1);
    }

    #[test]
    fn an_all_zero_config_is_off() {
        assert_eq!(RawConfig::default().checked().mode, Mode::Off);
        assert_eq!(Mode::from_raw(0), Mode::Off);
        assert_eq!(Mode::from_raw(77), Mode::Off);
    }

    #[test]
    fn a_small_foreign_class_id_is_no_intent() {
        assert_eq!(Slot::from_raw(5), Slot::NONE);
        assert_eq!(Slot::from_raw(0x1_8000), Slot::NONE);
        assert_eq!(Slot::from_raw(0x8001), Slot { number: 0x8001 });
    }
}
