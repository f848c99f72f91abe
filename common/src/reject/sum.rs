//! The checksum of IP, TCP, UDP and ICMP (RFC 1071). Words are taken as they lie in memory: the sum
//! has the byte order of what was summed.

/// A running sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Of nothing.
    #[inline(always)]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Of words that were added up already.
    #[inline(always)]
    pub const fn of_words(words: u64) -> Self {
        Self(words)
    }

    /// With another sum.
    #[inline(always)]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// With more words; up to 2^32 of them.
    #[inline(always)]
    pub const fn with<const N: usize>(self, words: [u32; N]) -> Self {
        let mut sum = self.0;
        let mut at = 0;
        while at < N {
            sum += words[at] as u64;
            at += 1;
        }
        Self(sum)
    }

    /// The sum in 16 bits: what stands in the checksum field where the device is to complete it.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "folded into 16 bits")]
    pub const fn folded(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        sum as u16
    }

    /// What stands in the checksum field of a complete packet.
    #[inline(always)]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071 section 3: 00 01 f2 03 f4 f5 f6 f7 sum up to dd f2.
    #[test]
    fn the_checksum_of_the_rfcs_example_is_correct() {
        let words = [[0x00, 0x01, 0xf2, 0x03], [0xf4, 0xf5, 0xf6, 0xf7]].map(u32::from_ne_bytes);
        let sum = Sum::new().with(words);
        assert_eq!(sum.folded().to_ne_bytes(), [0xdd, 0xf2]);
        assert_eq!(sum.checksum().to_ne_bytes(), [0x22, 0x0d]);
    }

    #[test]
    fn every_carry_is_folded_in() {
        assert_eq!(Sum::new().with([u32::MAX; 64]).folded(), u16::MAX);
        assert_eq!(Sum::new().with([0xffff_0001, 0xffff]).folded(), 1);
    }
}
