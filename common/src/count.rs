//! A count of packets.

/// Value of COUNTERS, per CPU, by [`counter`](crate::counter).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// As the stack counts them: a GSO packet is one.
    pub packets: u64,
    /// With link-layer headers.
    pub bytes: u64,
    /// Packets that open a connection: TCP SYN, SCTP INIT. One that is sent again counts again.
    pub openings: u64,
}

impl Count {
    /// One packet.
    #[inline]
    pub const fn one(bytes: u32, opens: bool) -> Self {
        Self {
            packets: 1,
            bytes: bytes as u64,
            openings: opens as u64,
        }
    }

    /// Both together.
    #[inline]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
            openings: self.openings.wrapping_add(other.openings),
        }
    }

    /// What came after `earlier`. A count that fell began anew at 0.
    pub const fn since(self, earlier: Self) -> Self {
        if self.packets < earlier.packets {
            return self;
        }
        Self {
            packets: self.packets.wrapping_sub(earlier.packets),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            openings: self.openings.wrapping_sub(earlier.openings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_fell_began_anew() {
        let (five, seven) = (
            Count {
                packets: 5,
                bytes: 50,
                openings: 1,
            },
            Count {
                packets: 7,
                bytes: 90,
                openings: 1,
            },
        );
        assert_eq!(
            seven.since(five),
            Count {
                packets: 2,
                bytes: 40,
                openings: 0
            }
        );
        assert_eq!(five.since(seven), five);
    }
}
