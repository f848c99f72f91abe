//! The effect of instructions on a number that depends on a carrier's old value.

use super::bits::{Bits, mask};
use super::field::Field;
use super::insn::alu;
use super::value::Value;

impl Field {
    /// Only these positions; the others are 0.
    #[must_use]
    pub fn limited(mut self, positions: u64) -> Value {
        let there = self.at(positions);
        self.taint &= there;
        self.kept &= there;
        self.altered &= there;
        self.ones &= positions;
        if self.taint != 0 {
            return Value::Field(self);
        }
        let (value, unknown) = (0, self.ones);
        Value::Other(Bits { value, unknown })
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
