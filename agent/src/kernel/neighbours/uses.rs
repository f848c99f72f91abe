//! The possible use of the two fields that can carry a Service's slot, by a program.

use std::ops::{BitOr, BitOrAssign};

/// The possible use of one 16-bit field of the packet. Each mask is in the host's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct FieldUse {
    /// Bits of the old value that may influence anything other than an unchanged write-back.
    pub reads: u16,
    /// Bits that a store may make 1, other than by preserving them.
    pub sets: u16,
    /// Bits that a store may not preserve.
    pub clears: u16,
}

/// The possible use of both fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Use {
    /// `skb->tc_index`.
    pub tc_index: FieldUse,
    /// `tc_classid` in the queueing discipline's part of `skb->cb`.
    pub tc_classid: FieldUse,
}

/// One of the two fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// `skb->tc_index`.
    TcIndex,
    /// `tc_classid` in `skb->cb`.
    TcClassid,
}

impl FieldUse {
    /// Every bit is read, set and cleared.
    pub const UNKNOWN: Self = Self {
        reads: u16::MAX,
        sets: u16::MAX,
        clears: u16::MAX,
    };

    /// Nothing happens to the field.
    pub const NONE: Self = Self {
        reads: 0,
        sets: 0,
        clears: 0,
    };
}

impl Use {
    /// Every bit of both fields is read, set and cleared: the assumption for what cannot be read.
    pub const UNKNOWN: Self = Self {
        tc_index: FieldUse::UNKNOWN,
        tc_classid: FieldUse::UNKNOWN,
    };

    /// Nothing happens to either field.
    pub const NONE: Self = Self {
        tc_index: FieldUse::NONE,
        tc_classid: FieldUse::NONE,
    };

    /// True if neither field is touched.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The use of one field, to change it.
    pub const fn of(&mut self, carrier: Carrier) -> &mut FieldUse {
        match carrier {
            Carrier::TcIndex => &mut self.tc_index,
            Carrier::TcClassid => &mut self.tc_classid,
        }
    }
}

/// The use that covers what either may do.
impl BitOr for Use {
    type Output = Self;

    fn bitor(mut self, other: Self) -> Self {
        self |= other;
        self
    }
}

impl BitOrAssign for Use {
    fn bitor_assign(&mut self, other: Self) {
        self.tc_index |= other.tc_index;
        self.tc_classid |= other.tc_classid;
    }
}

impl BitOrAssign for FieldUse {
    fn bitor_assign(&mut self, other: Self) {
        self.reads |= other.reads;
        self.sets |= other.sets;
        self.clears |= other.clears;
    }
}

impl Carrier {
    /// Both carriers.
    pub const ALL: [Self; 2] = [Self::TcIndex, Self::TcClassid];
}
