//! Maps about the node itself: orphan IPs of its own range, and its interfaces.

use crate::{Addr, Bucket, Uid};

/// TERMINATED: IP -> the dead pod that had it last, on its own node. Put in and taken out by the
/// agent, and never overwritten: what the programs write lives as long as the entry.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terminated {
    /// The pod.
    pub dead_uid: Uid,
    /// When the agent had its proof, nanoseconds of `CLOCK_BOOTTIME`.
    pub proven_ns: u64,
    /// Not 0: when a packet from the IP was seen, `CLOCK_BOOTTIME`. From then on all packets to it
    /// pass.
    pub lifted_ns: u64,
    /// The last address of the node's range, which is no pod's: the way to it is that of the range.
    pub range: Addr,
    /// How many events were sent.
    pub rate: Rate,
    /// Most that is done about packets to the IP, as the dead pod's annotations ask: a
    /// [`crate::Mode`]; a number, since a person may have written anything with bpftool.
    pub mode: u32,
    /// The action for packets to the IP, a [`crate::Action`] as a number; unset: that of CONFIG.
    pub action: u32,
}

/// Limits events and answers; written by the programs.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rate {
    /// Start of the current second, `CLOCK_BOOTTIME`.
    pub window_ns: u64,
    /// Events in it.
    pub events: u32,
    /// Always 0.
    pub reserved: u32,
    /// Answers given.
    pub answers: Bucket,
}

impl Rate {
    /// Events a second for one suspect; the rest is counted.
    pub const EVENTS_PER_SECOND: u32 = 100;
    const SECOND_NS: u64 = 1_000_000_000;

    /// Whether there is room for an event in this second. CPUs may race for it: a few events more
    /// or less are no matter.
    #[inline]
    pub fn admit(&mut self, now_ns: u64) -> bool {
        // Another CPU may have opened the second a moment after this one read the clock.
        if now_ns.saturating_sub(self.window_ns) > Self::SECOND_NS {
            self.window_ns = now_ns;
            self.events = 0;
        }
        self.events = self.events.saturating_add(1);
        self.events <= Self::EVENTS_PER_SECOND
    }
}

/// The role of an interface: what it leads to. The numbers are those of INTERFACES.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Leads to a pod.
    Pod = 1,
    /// Leads out of the node.
    Uplink = 2,
    /// Leads to other nodes, inside another packet.
    Tunnel = 3,
    /// A bridge: its ports lead to pods.
    Bridge = 4,
    /// Leads out of the node through another hooked interface, as a VLAN does: that one judges.
    Stacked = 5,
    /// Leads to pods or out of the node, through another hooked interface: that one judges.
    Relay = 6,
}

impl Role {
    /// Every role, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Pod,
        Self::Uplink,
        Self::Tunnel,
        Self::Bridge,
        Self::Stacked,
        Self::Relay,
    ];

    /// Whether what leaves here leaves the node.
    #[inline]
    pub const fn leads_out(self) -> bool {
        matches!(self, Self::Uplink | Self::Stacked | Self::Tunnel)
    }

    /// Whether another hooked interface judges what leaves here.
    #[inline]
    pub const fn hands_on(self) -> bool {
        matches!(self, Self::Stacked | Self::Relay)
    }

    /// As the status and docs/reference.md name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Uplink => "uplink",
            Self::Tunnel => "tunnel",
            Self::Bridge => "bridge",
            Self::Stacked => "stacked",
            Self::Relay => "relay",
        }
    }
}

/// Value of INTERFACES, by ifindex. Zero, or no entry: unknown.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawRole {
    /// A [`Role`] in the lowest octet, or 0 for none, and flags; a number, since a person may have
    /// written anything with bpftool.
    pub number: u32,
}

impl RawRole {
    /// No program of another project is at the interface's ingress: packets in the name of an
    /// endpoint may enter the stack there.
    pub const TAKES_ANSWERS: u32 = 0x100;
    /// The interface is a bridge.
    pub const BRIDGE: u32 = 0x200;

    /// Whether a flag is set.
    #[inline]
    pub const fn has(self, flag: u32) -> bool {
        self.number & flag != 0
    }

    /// The role; `None` if there is none, or the number is unknown.
    #[inline]
    pub const fn role(self) -> Option<Role> {
        match self.number & 0xff {
            1 => Some(Role::Pod),
            2 => Some(Role::Uplink),
            3 => Some(Role::Tunnel),
            4 => Some(Role::Bridge),
            5 => Some(Role::Stacked),
            6 => Some(Role::Relay),
            _ => None,
        }
    }
}

impl From<Role> for RawRole {
    fn from(role: Role) -> Self {
        Self {
            number: role as u32,
        }
    }
}

/// Value of MACS, by ifindex: the link-layer address of an uplink with an XDP program, which has no
/// skb to find out which frames are addressed to the host. Without an entry nothing is denied
/// there.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mac {
    /// In transmission order.
    pub octets: [u8; 6],
    /// Not 0: the device sends packets for an XDP program, so that it can answer.
    pub sends: u8,
    /// Always 0.
    pub reserved: u8,
}

#[cfg(feature = "user")]
mod user {
    // SAFETY: `repr(C)`, Copy, 'static, integers only and without implicit padding (see the tests
    // of this file).
    unsafe impl aya::Pod for super::Mac {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_reads_back_from_its_number_and_no_other_number_is_one() {
        for role in Role::ALL {
            assert_eq!(RawRole::from(role).role(), Some(role));
        }
        for number in [0, 7, u32::MAX, RawRole::BRIDGE] {
            assert_eq!(RawRole { number }.role(), None);
        }
        let free = RawRole {
            number: Role::Pod as u32 | RawRole::TAKES_ANSWERS,
        };
        assert_eq!(
            (free.role(), free.has(RawRole::TAKES_ANSWERS)),
            (Some(Role::Pod), true)
        );
        assert!(!free.has(RawRole::BRIDGE));
    }

    #[test]
    fn events_beyond_the_rate_are_suppressed_until_the_next_second() {
        let mut rate = Rate::default();
        let admitted = (0..1000).filter(|_| rate.admit(5_000_000_000)).count();
        assert_eq!(admitted, Rate::EVENTS_PER_SECOND as usize);
        assert!(rate.admit(6_000_000_001));
    }
}
