//! A number that depends on a carrier's old value, bit by bit.

use super::bits::Bits;
use super::insn::alu;
use super::uses::Carrier;
use super::value::{Origin, Value};

/// A number in which bit `i` of a carrier's old value may stand at position `i + shift`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Whose old value it is.
    pub which: Carrier,
    /// Of the pointer that it was loaded through.
    pub origin: Origin,
    /// Positions to the left.
    pub shift: i32,
    /// Bits of the carrier that may influence their position.
    pub taint: u16,
    /// Those of them that certainly stand at their position.
    pub kept: u16,
    /// Those of them that may stand there in another way than unchanged.
    pub altered: u16,
    /// Positions that may be 1 other than by an unchanged bit.
    pub ones: u64,
}

impl Field {
    /// Where bits of the carrier stand in the value.
    #[must_use]
    pub const fn place(&self, bits: u16) -> u64 {
        shift(bits as u64, self.shift)
    }

    /// Bits of the carrier that stand at these positions of the value.
    #[must_use]
    pub fn at(&self, positions: u64) -> u16 {
        (0..16).fold(0, |bits, bit| {
            bits | if self.place(1 << bit) & positions == 0 {
                0
            } else {
                1 << bit
            }
        })
    }

    /// Only these positions; the others are 0.
    #[must_use]
    pub fn limited(mut self, positions: u64) -> Value {
        let there = self.at(positions);
        self.taint &= there;
        self.kept &= there;
        self.altered &= there;
        self.ones &= positions;
        match (self.taint, self.ones) {
            (0, ones) => Value::Other(Bits {
                value: 0,
                unknown: ones,
            }),
            _ => Value::Field(self),
        }
    }

    /// The number, moved to the left or (negative) right.
    #[must_use]
    pub const fn shifted(mut self, by: i32) -> Self {
        self.shift += by;
        self.ones = shift(self.ones, by);
        self
    }

    /// The number, combined with another one by AND, OR or XOR.
    #[must_use]
    pub fn masked(mut self, operation: u8, number: Bits) -> Value {
        let certain = self.at(number.value);
        self.kept &= !self.at(number.unknown);
        match operation {
            alu::AND => return self.limited(number.ones()),
            alu::OR => {
                self.taint &= !certain;
                self.kept &= !certain;
                self.altered &= !certain;
            }
            _ => {
                self.kept &= !certain;
                self.altered |= self.taint & self.at(number.ones());
            }
        }
        self.ones |= number.ones();
        self.limited(u64::MAX)
    }

    /// The number, shifted. None if this is no shift by less than the width, or one that copies a sign.
    #[must_use]
    pub fn moved(self, operation: u8, count: u64, size: u8) -> Option<Value> {
        let count = i32::try_from(count)
            .ok()
            .filter(|count| *count < i32::from(size) * 8)?;
        let sign = 1u64 << (u32::from(size) * 8 - 1);
        let signed = (self.place(self.taint) | self.ones) & sign != 0;
        let by = match operation {
            alu::LSH => count,
            alu::RSH => -count,
            alu::ARSH if !signed => -count,
            _ => return None,
        };
        Some(self.shifted(by).limited(mask(size)))
    }
}

/// The positions of the low octets.
#[must_use]
pub const fn mask(size: u8) -> u64 {
    if size >= 8 {
        u64::MAX
    } else {
        (1 << (size * 8)) - 1
    }
}

const fn shift(bits: u64, by: i32) -> u64 {
    match by {
        0..64 => bits << by,
        -63..0 => bits >> -by,
        _ => 0,
    }
}
