//! A number of which some bits are known, as the verifier's `tnum` (`kernel/bpf/tnum.c`).

use super::insn::alu;

/// A number: the bits in `unknown` may be 0 or 1, the others are as in `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// 0 where the bit is unknown.
    pub value: u64,
    /// Bits that may be either.
    pub unknown: u64,
}

impl Bits {
    /// Any number.
    pub const ANY: Self = Self {
        value: 0,
        unknown: u64::MAX,
    };

    /// This number.
    #[must_use]
    pub const fn exactly(value: u64) -> Self {
        Self { value, unknown: 0 }
    }

    /// The number, if all of it is known.
    #[must_use]
    pub const fn known(self) -> Option<u64> {
        if self.unknown == 0 { Some(self.value) } else { None }
    }

    /// Bits that may be 1.
    #[must_use]
    pub const fn ones(self) -> u64 {
        self.value | self.unknown
    }

    /// Either number.
    #[must_use]
    pub const fn join(self, other: Self) -> Self {
        let unknown = self.unknown | other.unknown | (self.value ^ other.value);
        Self {
            value: self.value & !unknown,
            unknown,
        }
    }

    /// `size` octets from octet `from` on, zero-extended.
    #[must_use]
    pub const fn slice(self, from: i32, size: u8) -> Self {
        let part = mask(size);
        Self {
            value: self.value >> (from * 8) & part,
            unknown: self.unknown >> (from * 8) & part,
        }
    }

    /// The result of an arithmetic instruction on `wide` (64) or 32 bits.
    #[must_use]
    pub fn compute(self, operation: u8, operand: Self, wide: bool) -> Self {
        let (a, b) = (self, operand);
        let count = |b: u64| u32::try_from(b).ok().filter(|b| *b < if wide { 64 } else { 32 });
        let zero_or_unknown = |ones: u64, value: u64| Self {
            value,
            unknown: ones & !value,
        };
        match (operation, a.known(), b.known()) {
            (alu::AND, ..) => zero_or_unknown(a.ones() & b.ones(), a.value & b.value),
            (alu::OR, ..) => zero_or_unknown(a.ones() | b.ones(), a.value | b.value),
            (alu::XOR, ..) => {
                let unknown = a.unknown | b.unknown;
                zero_or_unknown((a.value ^ b.value) | unknown, (a.value ^ b.value) & !unknown)
            }
            (alu::ADD, Some(a), Some(b)) => Self::exactly(a.wrapping_add(b)),
            (alu::SUB, Some(a), Some(b)) => Self::exactly(a.wrapping_sub(b)),
            (alu::LSH | alu::RSH, _, Some(b)) => count(b).map_or(Self::ANY, |by| {
                let shift = |bits: u64| {
                    if operation == alu::LSH {
                        bits << by
                    } else {
                        bits >> by
                    }
                };
                Self {
                    value: shift(a.value),
                    unknown: shift(a.unknown),
                }
            }),
            _ => Self::ANY,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number that some bits stand for, of the low four.
    fn numbers(bits: Bits) -> impl Iterator<Item = u64> {
        (0..16).filter(move |number| number & !bits.unknown == bits.value)
    }

    #[test]
    fn the_result_of_an_operation_covers_all_possible_numbers() {
        let some = [(0, 0), (5, 0), (0, 0b11), (0b100, 0b1001), (0, 0b1111)]
            .map(|(value, unknown)| Bits { value, unknown });
        for operation in [
            alu::AND,
            alu::OR,
            alu::XOR,
            alu::ADD,
            alu::SUB,
            alu::LSH,
            alu::RSH,
        ] {
            for (a, b) in some.iter().flat_map(|a| some.iter().map(|b| (*a, *b))) {
                let result = a.compute(operation, b, true);
                for (x, y) in numbers(a).flat_map(|x| numbers(b).map(move |y| (x, y))) {
                    let exact = Bits::exactly(x).compute(operation, Bits::exactly(y), true).value;
                    assert_eq!(
                        exact & !result.unknown,
                        result.value,
                        "{operation:#x} {a:?} {b:?}: {x} {y}"
                    );
                }
                for number in numbers(a).chain(numbers(b)) {
                    let either = a.join(b);
                    assert_eq!(number & !either.unknown, either.value);
                }
            }
        }
    }
}
