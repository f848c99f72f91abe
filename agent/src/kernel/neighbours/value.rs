//! The values that a register or stack slot may hold, and how instructions change them.

use super::bits::{Bits, mask};
use super::field::{Field, Origin};
use super::insn::alu;
use super::uses::{Carrier, Use};

/// An abstract value: every concrete one that the program can see there is covered by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Not the packet's `sk_buff`, not the stack: a number.
    Other(Bits),
    /// The `sk_buff`, or an address that may be it.
    Pointer {
        /// The origin of the pointer.
        origin: Origin,
        /// Octets that were added to it; none if that varies. The verifier refuses access to an `sk_buff` then.
        delta: Option<i32>,
    },
    /// An address on the function's stack relative to r10; none if that varies, or if it may be other memory, but not the
    /// `sk_buff`.
    Stack(Option<i32>),
    /// Different things on different paths. Most such values are never used again; one that is counts as the worst
    /// case.
    Mixed {
        /// Bits of the old `tc_index` that it may depend on.
        tc_index: u16,
        /// Bits of the old `tc_classid`, likewise.
        tc_classid: u16,
        /// True if it may be an address, on the stack or of the `sk_buff`. No access through it is followed.
        address: bool,
    },
    /// A number that depends on a carrier's old value.
    Field(Field),
    /// A map, by its id.
    Map(u32),
}

impl Value {
    /// A number that nothing is known about.
    pub const NUMBER: Self = Self::Other(Bits::ANY);
    /// An address that may lead into the `sk_buff`, anywhere.
    pub const ANY: Self = Self::Pointer {
        origin: Origin::Any,
        delta: None,
    };

    /// Counts the bits that a value depends on as read: the analysis does not follow it further.
    pub const fn escape(self, uses: &mut Use) {
        let (tc_index, tc_classid) = self.taint();
        uses.tc_index.reads |= tc_index;
        uses.tc_classid.reads |= tc_classid;
    }

    /// Bits of both carriers' old values that it may depend on.
    const fn taint(self) -> (u16, u16) {
        match self {
            Self::Field(field) => match field.which {
                Carrier::TcIndex => (field.taint, 0),
                Carrier::TcClassid => (0, field.taint),
            },
            Self::Mixed {
                tc_index, tc_classid, ..
            } => (tc_index, tc_classid),
            _ => (0, 0),
        }
    }

    const fn may_be_address(self) -> bool {
        match self {
            Self::Pointer { .. } | Self::Stack(_) => true,
            Self::Mixed { address, .. } => address,
            Self::Other(_) | Self::Field(_) | Self::Map(_) => false,
        }
    }

    fn mixed(self, other: Self) -> Self {
        let (a, b) = (self.taint(), other.taint());
        Self::Mixed {
            tc_index: a.0 | b.0,
            tc_classid: a.1 | b.1,
            address: self.may_be_address() || other.may_be_address(),
        }
    }

    /// The value of a point that two paths lead to.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Field(a), Self::Field(b))
                if (a.which, a.origin, a.shift) == (b.which, b.origin, b.shift) =>
            {
                Self::Field(Field {
                    taint: a.taint | b.taint,
                    kept: a.kept & b.kept,
                    altered: a.altered | b.altered,
                    ones: a.ones | b.ones,
                    ..a
                })
            }
            (Self::Field(field), Self::Other(number)) | (Self::Other(number), Self::Field(field)) => {
                Self::Field(Field {
                    kept: 0,
                    ones: field.ones | number.ones(),
                    ..field
                })
            }
            (Self::Other(a), Self::Other(b)) => Self::Other(a.join(b)),
            (Self::Map(_), other) | (other, Self::Map(_)) => Self::NUMBER.join(other),
            (Self::Stack(_), Self::Other(_) | Self::Stack(_)) | (Self::Other(_), Self::Stack(_)) => {
                Self::Stack(None)
            }
            (pointer @ Self::Pointer { .. }, Self::Other(_))
            | (Self::Other(_), pointer @ Self::Pointer { .. }) => pointer,
            (
                Self::Pointer { origin, delta },
                Self::Pointer {
                    origin: origin2,
                    delta: delta2,
                },
            ) => Self::Pointer {
                origin: if origin == origin2 { origin } else { Origin::Any },
                delta: delta.filter(|_| delta == delta2),
            },
            (a, b) => a.mixed(b),
        }
    }

    /// Joins another path's value into this one. True if it covers more than before.
    pub fn widen(&mut self, other: Self) -> bool {
        let before = *self;
        *self = before.join(other);
        *self != before
    }

    /// `size` octets of a value, from octet `from` on, the least significant first; zero-extended.
    #[must_use]
    pub fn slice(self, from: i32, size: u8) -> Self {
        let mask = mask(size);
        match self {
            _ if from == 0 && size == 8 => self,
            Self::Other(number) => Self::Other(number.slice(from, size)),
            Self::Field(field) => field.shifted(-from * 8).limited(mask),
            // A part of a pointer is no pointer.
            Self::Mixed { .. } => self.mixed(Self::NUMBER),
            Self::Pointer { .. } | Self::Stack(_) | Self::Map(_) => Self::NUMBER,
        }
    }

    /// The result of an arithmetic instruction. What it does with a carrier's bits other than masking and moving them
    /// counts as reading them.
    #[must_use]
    pub fn compute(self, operation: u8, operand: Self, wide: bool, uses: &mut Use) -> Self {
        let size = if wide { 8 } else { 4 };
        if operation == alu::MOV {
            return operand.slice(0, size);
        }
        let number = |value: Self| match value.slice(0, size) {
            Self::Map(_) => Self::NUMBER,
            value => value,
        };
        let (left, right) = (number(self), number(operand));
        if let Some(moved) = left.moved(operation, right.known()) {
            right.escape(uses);
            return moved.slice(0, size);
        }
        if operation == alu::ADD
            && let Some(moved) = right.moved(operation, None)
        {
            left.escape(uses);
            return moved.slice(0, size);
        }
        let result = match (left, right) {
            (Self::Other(a), Self::Other(b)) => Self::Other(a.compute(operation, b, wide)),
            (Self::Field(field), Self::Other(number)) | (Self::Other(number), Self::Field(field))
                if is_mask(operation) =>
            {
                field.masked(operation, number)
            }
            (Self::Field(field), Self::Other(count)) => {
                let count = count.known();
                let moved = count.and_then(|count| field.moved(operation, count, size));
                moved.unwrap_or_else(|| self.read(uses))
            }
            _ => {
                operand.escape(uses);
                self.read(uses)
            }
        };
        result.slice(0, size)
    }

    /// The address after arithmetic with a number, as far as that is known; none if the value is no address.
    fn moved(self, operation: u8, by: Option<u64>) -> Option<Self> {
        let moved = |from: Option<i32>| {
            let by = i32::try_from(by?.cast_signed()).ok()?;
            match operation {
                alu::ADD => from?.checked_add(by),
                alu::SUB => from?.checked_sub(by),
                _ => None,
            }
        };
        Some(match self {
            Self::Mixed { address: true, .. } => self,
            Self::Stack(at) => Self::Stack(moved(at)),
            Self::Pointer { origin, delta } => Self::Pointer {
                origin,
                delta: moved(delta),
            },
            _ => return None,
        })
    }

    /// The number, if it is known.
    #[must_use]
    pub const fn known(self) -> Option<u64> {
        match self {
            Self::Other(number) => number.known(),
            _ => None,
        }
    }

    fn read(self, uses: &mut Use) -> Self {
        self.escape(uses);
        Self::NUMBER
    }
}

const fn is_mask(operation: u8) -> bool {
    matches!(operation, alu::AND | alu::OR | alu::XOR)
}
