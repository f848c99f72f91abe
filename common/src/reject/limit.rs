//! The limit of answers: a token bucket that needs one word (GCRA, ITU-T I.371).

/// Limits of answers a second; beyond them packets are dropped silently. Zero: no answers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AnswerLimits {
    /// To packets for one IP.
    pub per_suspect: u32,
    /// To all packets that this node stops.
    pub per_node: u32,
}

/// Until when, `CLOCK_BOOTTIME`, the answers given so far use up the rate. Written by the programs:
/// CPUs that race for it may give an answer more.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    /// Nanoseconds.
    pub spent_until_ns: u64,
}

impl Bucket {
    const SECOND_NS: u64 = 1_000_000_000;

    /// The bucket after one more answer, `None` if there is no room for it. As many answers as are
    /// allowed in a second may come at once.
    #[inline(always)]
    pub const fn after(self, now_ns: u64, per_second: u32) -> Option<Self> {
        if per_second == 0 {
            return None;
        }
        let from = if self.spent_until_ns > now_ns {
            self.spent_until_ns
        } else {
            now_ns
        };
        let ahead_ns = (from - now_ns).saturating_add(Self::SECOND_NS / per_second as u64);
        if ahead_ns > Self::SECOND_NS {
            return None;
        }
        Some(Self {
            spent_until_ns: now_ns + ahead_ns,
        })
    }
}

#[cfg(feature = "user")]
mod user {
    // SAFETY: `repr(C)`, Copy, 'static, one integer.
    unsafe impl aya::Pod for super::Bucket {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers to packets that come every `gap_ns` in ten seconds.
    fn admitted(per_second: u32, gap_ns: usize) -> usize {
        let start = 5_000_000_000_u64;
        let mut bucket = Bucket::default();
        let packets = (start..start + 10 * Bucket::SECOND_NS).step_by(gap_ns);
        let answered = packets.filter(|now| match bucket.after(*now, per_second) {
            Some(after) => {
                bucket = after;
                true
            }
            None => false,
        });
        answered.count()
    }

    #[test]
    fn a_flood_gets_one_second_of_answers_at_once_and_then_the_rate() {
        for per_second in [1, 7, 100, 1000] {
            let count = admitted(per_second, 100_000);
            let most = 11 * per_second as usize;
            assert!(
                count <= most && count + 1 >= most - per_second as usize / 100,
                "{per_second}: {count}"
            );
        }
    }

    #[test]
    fn below_the_rate_every_packet_is_answered_and_at_a_rate_of_0_none() {
        assert_eq!(admitted(100, 11_000_000), 910);
        assert_eq!(admitted(0, 100_000_000), 0);
    }
}
