//! A token bucket. Pure: callers bring the clock.

use std::time::Duration;

/// Tokens that come back one by one, up to a burst.
#[derive(Debug, Clone)]
pub struct Bucket {
    interval: Duration,
    burst: u32,
    /// When it is full again; in the past it is full.
    full: Duration,
}

impl Bucket {
    /// A full bucket; another token comes each `interval`.
    pub const fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            burst,
            full: Duration::ZERO,
        }
    }

    /// Changes how fast tokens come back, and how many there are at most.
    pub const fn set_pace(&mut self, interval: Duration, burst: u32) {
        self.interval = interval;
        self.burst = burst;
    }

    /// Time until the next token; zero if there is one.
    pub fn wait(&self, now: Duration) -> Duration {
        let without_one = self.full.max(now) + self.interval;
        without_one.saturating_sub(now + self.interval.saturating_mul(self.burst))
    }

    /// True if all tokens have come back.
    pub fn is_full(&self, now: Duration) -> bool {
        self.full <= now
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Duration) -> bool {
        let there = self.wait(now).is_zero();
        if there {
            self.full = self.full.max(now) + self.interval;
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn taken(bucket: &mut Bucket, at: Duration) -> usize {
        std::iter::repeat_with(|| bucket.take(at))
            .take_while(|taken| *taken)
            .count()
    }

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_one_token_per_interval() {
        let mut bucket = Bucket::new(ms(200), 3);
        assert_eq!(taken(&mut bucket, ms(5000)), 3);
        assert_eq!(bucket.wait(ms(5000)), ms(200));
        assert_eq!(taken(&mut bucket, ms(5199)), 0);
        assert_eq!(bucket.wait(ms(5199)), ms(1));
        assert_eq!(taken(&mut bucket, ms(5200)), 1);
        assert_eq!(taken(&mut bucket, ms(5650)), 2);
        assert_eq!(
            taken(&mut bucket, ms(3_600_000)),
            3,
            "unused ones accumulate up to the burst"
        );
        let mut bucket = Bucket::new(ms(1000), 1);
        assert_eq!(bucket.wait(ms(0)), bucket.wait(ms(0)), "waiting takes none");
        assert!(bucket.take(ms(0)));
        assert_eq!((bucket.wait(ms(1)), bucket.wait(ms(1))), (ms(999), ms(999)));
    }
}
