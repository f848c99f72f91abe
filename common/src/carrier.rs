//! The numbers that a packet carries from one hook to the next, in `skb->tc_index`.
//!
//! The field belongs to the node's other programs, if they use it. The agent gives the programs a mask of the bits that no
//! foreign program reads or sets ([`crate::View::carrier`]); the programs read and write these bits only.

use crate::{Addr, Slot, View};

/// Every bit: no foreign program uses the field.
pub const CARRIER_ALL: u16 = 0xffff;
/// All but the low five bits, which Cilium uses (`TC_INDEX_F_*` in its `bpf/lib/common.h`).
pub const CARRIER_HIGH: u16 = 0xffe0;

/// Carried by a packet that an egress hook has judged, on its way to the egress hook of a lower device.
pub const JUDGED: u16 = 0x4a40;

impl View {
    /// The number among the carrier's bits of a field; 0: none, or no carrier.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "both fields have 16 bits")]
    pub const fn carried(&self, field: u32) -> u16 {
        (field & self.carrier) as u16
    }

    /// The field with another number. The neighbours' bits stay as they are.
    #[inline]
    #[must_use]
    pub const fn carrying(&self, field: u32, number: u16) -> u32 {
        field & !self.carrier | number as u32 & self.carrier
    }

    /// Whether the carrier has a bit for each bit of the number.
    #[inline]
    #[must_use]
    pub const fn can_carry(&self, number: u16) -> bool {
        self.carrier != 0 && number as u32 & !self.carrier == 0
    }

    /// Whether the number marks an answer of our own.
    #[inline]
    #[must_use]
    pub const fn is_answer(&self, number: u16) -> bool {
        number != 0 && number == self.answer
    }
}

impl Slot {
    /// The slot in a number that a packet carries; none for a mark.
    #[inline]
    #[must_use]
    pub const fn from_carried(number: u16) -> Self {
        Self::from_raw(number as u32)
    }

    /// Whether [`CARRIER_HIGH`] can carry it.
    #[must_use]
    pub const fn is_high(self) -> bool {
        self.number & !CARRIER_HIGH == 0
    }
}

/// Key of AIMED: the sender of a packet to an affected Service, as the ingress hook saw it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sender {
    /// Before masquerading.
    pub addr: Addr,
    /// Host order.
    pub port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: u8,
}

/// Value of AIMED.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aimed {
    /// When the packet passed, `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// The Service.
    pub slot: Slot,
    /// Always 0.
    pub reserved: [u16; 3],
}

impl Aimed {
    /// The longest time between the hooks: an older packet has left already.
    pub const WINDOW_NS: u64 = 100_000_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn view(carrier: u16) -> View {
        View {
            carrier: carrier as u32,
            answer: 0x7e80,
            ..ZERO
        }
    }

    const ZERO: View = View {
        lease_deadline_ns: 0,
        netns_cookie: 0,
        since_ns: 0,
        suspects: 0,
        vips: 0,
        terminated: 0,
        flows: 0,
        carrier: 0,
        wipers: 0,
        answer: 0,
        socket_lb: 0,
        socket_lb_epoch: 0,
    };

    #[test]
    fn without_a_carrier_nothing_is_read_or_written() {
        let view = view(0);
        assert_eq!(view.carried(0xffff), 0);
        assert_eq!(view.carrying(0x1234, 0x8020), 0x1234);
        assert!(!view.can_carry(0x8020) && !view.can_carry(0));
    }

    #[test]
    fn the_low_five_bits_stay_unchanged() {
        let view = view(CARRIER_HIGH);
        assert_eq!(view.carried(0x8020 | 0x1f), 0x8020);
        assert_eq!(view.carrying(0x8020 | 0x15, 0), 0x15);
        assert_eq!(view.carrying(0x15, 0x8040), 0x8055);
        assert!(view.can_carry(0x8020) && !view.can_carry(0x8021));
    }

    #[test]
    fn marks_fit_every_carrier_and_are_no_slots() {
        for number in [JUDGED, view(0).answer] {
            assert!(view(CARRIER_HIGH).can_carry(number));
            assert_eq!(Slot::from_carried(number), Slot::NONE);
        }
        assert!(view(CARRIER_ALL).is_answer(0x7e80) && !view(CARRIER_ALL).is_answer(0));
        assert!(!View::default().is_answer(0));
    }

    #[test]
    fn layouts_hold_no_implicit_padding() {
        assert_eq!(size_of::<Sender>(), 16 + 2 + 1 + 1);
        assert_eq!(size_of::<Aimed>(), 8 + 4 * 2);
    }
}
