//! COUNTERS and `DENIAL_COUNTS`: packets that the programs count.

use crate::{Outcome, Reason};

/// Value of COUNTERS, per CPU, by [`counter`].
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
    #[must_use]
    pub const fn one(bytes: u32, opens: bool) -> Self {
        Self {
            packets: 1,
            bytes: bytes as u64,
            openings: opens as u64,
        }
    }

    /// Both together.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
            openings: self.openings.wrapping_add(other.openings),
        }
    }

    /// What came after `earlier`. A count that fell began anew at 0.
    #[must_use]
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

/// Outcomes that COUNTERS has room for, for each reason.
const OUTCOMES: u32 = 32;

/// Reasons that COUNTERS has room for.
const REASONS: u32 = 8;

/// Elements of COUNTERS.
pub const COUNTERS: usize = (REASONS * OUTCOMES) as usize;

/// The element of COUNTERS for a reason and an outcome: `reason * 32 + outcome`, by their numbers.
#[inline]
#[must_use]
pub const fn counter(reason: Reason, outcome: Outcome) -> u32 {
    reason as u32 * OUTCOMES + outcome as u32
}

/// Value of `DENIAL_COUNTS`, per CPU, by the key of the denial (`terminated`: slot, port and protocol 0): the denied packets
/// by what became of them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DenialCount {
    /// Passed, since the denial is only observed.
    pub observed: Count,
    /// Dropped silently.
    pub dropped: Count,
    /// Dropped, and the sender got an answer.
    pub rejected: Count,
    /// Sent to a live endpoint.
    pub redirected: Count,
    /// Sent to the capture interface.
    pub captured: Count,
    /// When the last one was denied, `CLOCK_BOOTTIME`.
    pub last_ns: u64,
}

impl DenialCount {
    /// What can become of a denied packet, in the order of the fields.
    pub const OUTCOMES: [Outcome; 5] = [
        Outcome::Observed,
        Outcome::Dropped,
        Outcome::Rejected,
        Outcome::Redirected,
        Outcome::Captured,
    ];

    /// Each outcome with its count.
    #[must_use]
    pub const fn each(&self) -> [(Outcome, Count); 5] {
        [
            (Outcome::Observed, self.observed),
            (Outcome::Dropped, self.dropped),
            (Outcome::Rejected, self.rejected),
            (Outcome::Redirected, self.redirected),
            (Outcome::Captured, self.captured),
        ]
    }

    /// The sum over processors.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            observed: self.observed.plus(other.observed),
            dropped: self.dropped.plus(other.dropped),
            rejected: self.rejected.plus(other.rejected),
            redirected: self.redirected.plus(other.redirected),
            captured: self.captured.plus(other.captured),
            last_ns: self.last_ns.max(other.last_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_reason_and_outcome_has_an_element_of_its_own() {
        let pairs = || Reason::ALL.into_iter().flat_map(|r| Outcome::ALL.map(|o| (r, o)));
        let elements: BTreeSet<u32> = pairs()
            .map(|(reason, outcome)| counter(reason, outcome))
            .collect();
        assert_eq!(elements.len(), pairs().count());
        assert!(elements.iter().all(|element| (*element as usize) < COUNTERS));
        assert!(Outcome::ALL.len() <= OUTCOMES as usize && Reason::ALL.len() <= REASONS as usize);
        assert_eq!(counter(Reason::Reused, Outcome::Observed), 65);
    }

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
