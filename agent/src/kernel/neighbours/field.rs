//! A number that depends on a carrier's old value, bit by bit.

use super::uses::Carrier;

/// The source of a pointer. Two pointers of one known origin are the same pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The `sk_buff` that the program was called with.
    Context,
    /// An argument of a subprogram or callback, 1 to 5: may be the `sk_buff`.
    Argument(u8),
    /// Anything that may be the `sk_buff`.
    Any,
}

/// A number in which bit `i` of a carrier's old value may stand at position `i + shift`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Whose old value it is.
    pub which: Carrier,
    /// The origin of the pointer that it was loaded through.
    pub origin: Origin,
    /// How many positions to the left its bits stand; negative: to the right.
    pub shift: i32,
    /// Bits of the carrier that may influence their position.
    pub taint: u16,
    /// Bits of `taint` that certainly stand at their position.
    pub kept: u16,
    /// Bits of `taint` that may stand there in another way than unchanged.
    pub altered: u16,
    /// Positions that may be 1 other than by an unchanged bit.
    pub ones: u64,
}

impl Field {
    /// The carrier's old value as it is loaded. `lowest` is the position of its lowest bit; other positions may hold
    /// anything.
    #[must_use]
    pub const fn loaded(which: Carrier, origin: Origin, lowest: i32) -> Self {
        Self {
            which,
            origin,
            shift: lowest,
            taint: u16::MAX,
            kept: u16::MAX,
            altered: 0,
            ones: !shift(u16::MAX as u64, lowest),
        }
    }

    /// The positions of these bits of the carrier in the value.
    #[must_use]
    pub const fn place(&self, bits: u16) -> u64 {
        shift(bits as u64, self.shift)
    }

    /// Bits of the carrier that stand at these positions of the value.
    #[must_use]
    pub fn at(&self, positions: u64) -> u16 {
        let there = (0..16).filter(|bit| self.place(1 << bit) & positions != 0);
        there.fold(0, |bits, bit| bits | 1 << bit)
    }

    /// The number, moved to the left or (negative) right.
    #[must_use]
    pub const fn shifted(mut self, by: i32) -> Self {
        self.shift += by;
        self.ones = shift(self.ones, by);
        self
    }
}

const fn shift(bits: u64, by: i32) -> u64 {
    match by {
        0..64 => bits << by,
        -63..0 => bits >> -by,
        _ => 0,
    }
}
