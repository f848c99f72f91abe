//! Map keys, map values and events: `repr(C)`, fixed width, no implicit padding, all-zero is safe.
//!
//! Addresses and UIDs are octets in network order; ports and everything else are host order, so that
//! `bpftool map dump` shows ports as people know them. A change here is a new [`ABI_VERSION`], because a
//! pinned map of another shape would be misread.

use crate::{Action, Addr, Mode, Rate, Reason, Uid};

/// Part of the pin path: `<pin-dir>/v2/OWNERS`.
pub const ABI_VERSION: u32 = 2;

/// OWNERS: IP -> the pod that publishes it. For people, reports and audits, and for where flows are steered: only to a
/// pod that still has its IP. Never asked to let a packet through.
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

/// SUSPECTS: the only IPs the fast path looks at twice.
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

/// Key of SERVICES: what a packet is aimed at before DNAT.
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

/// Value of SERVICES, and the intent that a packet carries: the number of an affected Service, 0: none.
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

    /// The intent that a packet carries; numbers that are no slot are somebody else's.
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
pub struct Target {
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

/// What is proven of the pod that was meant.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UidState {
    /// Nothing. No denial has this.
    #[default]
    Live = 0,
    /// Kubernetes intends no new flow for it, but it may still run: only packets that open a flow.
    Retired = 1,
    /// It will never send or receive again: all packets.
    Dead = 2,
}

/// Value of DENIED.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denial {
    /// The pod that the Service meant.
    pub dead_uid: Uid,
    /// The pod that would be hit; none if nobody claims the IP.
    pub owner_uid: Uid,
    /// `status.nodeInfo.bootID` of the node that the dead pod ran on.
    pub boot_id: Uid,
    /// Which proof holds.
    pub reason: Reason,
    /// How far it goes.
    pub uid_state: UidState,
    /// Most that is done about it, as annotations ask: the mode in force is the lowest of all.
    pub mode: Mode,
    /// Not 0: held by the breaker until a second list agrees; reported, never carried out.
    pub held: u32,
    /// How packets are stopped, if not as CONFIG says.
    pub action: Action,
    /// Always 0.
    pub reserved: u32,
    /// Since when the key's slot is this Service's, `CLOCK_BOOTTIME`: a socket that noted it earlier meant another.
    pub slot_since_ns: u64,
}

/// SOCKETS, by socket cookie: what a socket of the node itself is aimed at. The rules are its methods.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketIntent {
    /// When it was written down, `CLOCK_BOOTTIME`.
    pub made_ns: u64,
    /// When the last datagram with an address of its own was handed in, `CLOCK_BOOTTIME`.
    pub sent_ns: u64,
    /// Datagrams with an address of their own that were handed in.
    pub handed: u32,
    /// How many of them were seen leaving.
    pub left: u32,
    /// The thread that hands them in.
    pub thread: u32,
    /// Where the last one is aimed.
    pub sent: Slot,
    /// Where the socket is connected.
    pub connected: Slot,
    /// Not 0: several threads hand them in.
    pub shared: u16,
    /// Not 0: it had sent nothing by then, so every datagram of it was seen handed in.
    pub fresh: u16,
    /// Always 0.
    pub reserved: [u16; 2],
}

/// Key of COUNTERS.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Counter {
    /// `Nothing` where a packet passed without a denial at hand.
    pub reason: Reason,
    /// What became of it.
    pub outcome: crate::Outcome,
}

/// Value of COUNTERS, per CPU.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// As the stack counts them: a GSO packet is one.
    pub packets: u64,
    /// With link-layer headers.
    pub bytes: u64,
}

/// One denied, or would-be denied, packet. Numbers instead of enums: it crosses the boundary unchecked.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// The pod that the Service meant.
    pub dead_uid: Uid,
    /// The pod that would be, or was, hit.
    pub owner_uid: Uid,
    /// As the packet shows it at the hook: after masquerading.
    pub src: Addr,
    /// After DNAT: the endpoint.
    pub dst: Addr,
    /// [`Reason`].
    pub reason: u32,
    /// [`crate::Outcome`].
    pub outcome: u32,
    /// Where the packet was leaving.
    pub ifindex: u32,
    /// Bytes, with link-layer header.
    pub length: u32,
    /// Host order.
    pub src_port: u16,
    /// Host order.
    pub dst_port: u16,
    /// The Service.
    pub slot: Slot,
    /// IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: u8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Mode, View};

    #[test]
    fn layouts_are_as_pinned_and_hold_no_implicit_padding() {
        assert_eq!(size_of::<Addr>(), 16);
        assert_eq!(size_of::<Uid>(), 16);
        assert_eq!(size_of::<Config>(), 4 * (1 + 4 + 4 + 4 + 2 + 1 + 1));
        assert_eq!(size_of::<View>(), 3 * 8 + 6 * 4 + 4 * 2);
        assert_eq!(size_of::<Owner>(), 16 + 8 + 8 + 4 + 4);
        assert_eq!(size_of::<Suspect>(), 16 + 4 + 4 + size_of::<Rate>());
        assert_eq!(size_of::<Vip>(), 16 + 2 + 1 + 1);
        assert_eq!(size_of::<Target>(), 16 + 2 + 2 + 1 + 3);
        assert_eq!(size_of::<Denial>(), 3 * 16 + 6 * 4 + 8);
        assert_eq!(size_of::<SocketIntent>(), 2 * 8 + 3 * 4 + 3 * 2 + 6);
        assert_eq!(size_of::<Counter>(), 4 + 4);
        assert_eq!(size_of::<Count>(), 16);
        assert_eq!(size_of::<Event>(), 8 + 4 * 16 + 4 * 4 + 2 + 2 + 2 + 1 + 1);
    }

    #[test]
    fn an_all_zero_config_is_off() {
        assert_eq!(Config::default().mode, Mode::Off);
        assert_eq!(Mode::from_raw(0), Mode::Off);
        assert_eq!(Mode::from_raw(77), Mode::Off);
    }

    #[test]
    fn a_small_class_id_of_somebody_else_is_no_intent() {
        assert_eq!(Slot::from_raw(5), Slot::NONE);
        assert_eq!(Slot::from_raw(0x1_8000), Slot::NONE);
        assert_eq!(Slot::from_raw(0x8001), Slot { number: 0x8001 });
    }
}
