//! The clocks of leases and of the view's age, and the check that they agree.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Longest difference without a jump: more than drift, NTP slewing and a late tick can cause.
const TOLERANCE: Duration = Duration::from_secs(2);

/// Nanoseconds of `CLOCK_BOOTTIME`, the clock of leases and events.
pub fn boot_ns() -> u64 {
    nanoseconds(boot())
}

/// The duration in nanoseconds; the largest number if it does not fit.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The duration in milliseconds; the largest number if it does not fit.
pub fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// `CLOCK_BOOTTIME`: never goes back, and goes on while the machine sleeps.
pub fn boot() -> Duration {
    read_clock(ClockId::CLOCK_BOOTTIME)
}

/// Three clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// `CLOCK_BOOTTIME`.
    pub boot: Duration,
    /// `CLOCK_MONOTONIC`: stands still while the machine sleeps.
    pub monotonic: Duration,
    /// `CLOCK_REALTIME`: set from outside, so it is right again after a virtual machine was paused,
    /// even if the other clocks missed that.
    pub real: Duration,
}

impl Clocks {
    /// Reads the three clocks.
    pub fn now() -> Self {
        Self {
            boot: boot(),
            monotonic: read_clock(ClockId::CLOCK_MONOTONIC),
            real: read_clock(ClockId::CLOCK_REALTIME),
        }
    }

    /// By how much one of the other clocks jumped against `CLOCK_BOOTTIME` since `before`; none if
    /// within 2 s.
    ///
    /// A jump means that the machine slept or was paused, or that its clock was set: then the age
    /// of every fact is unknown.
    pub fn jumped_since(&self, before: &Self) -> Option<Duration> {
        // now - was - (boot now - boot then), arranged so that no difference is negative.
        let monotonic = (self.monotonic + before.boot).abs_diff(before.monotonic + self.boot);
        let real = (self.real + before.boot).abs_diff(before.real + self.boot);
        let jump = monotonic.max(real);
        (jump > TOLERANCE).then_some(jump)
    }
}

fn read_clock(clock: ClockId) -> Duration {
    // These clocks always exist.
    clock_gettime(clock).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Clocks = clocks(100_000, 90_000, 5_000_000);

    /// In milliseconds.
    const fn clocks(boot: u64, monotonic: u64, real: u64) -> Clocks {
        Clocks {
            boot: Duration::from_millis(boot),
            monotonic: Duration::from_millis(monotonic),
            real: Duration::from_millis(real),
        }
    }

    #[test]
    fn only_a_sleep_a_pause_or_a_clock_that_goes_back_is_a_jump() {
        let s = |seconds| Some(Duration::from_secs(seconds));
        for (sentence, now, jump) in [
            (
                "time passes on all clocks",
                clocks(3_700_000, 3_690_000, 8_600_000),
                None,
            ),
            ("drift", clocks(101_000, 91_000, 5_002_900), None),
            ("slewing", clocks(103_000, 93_000, 5_001_100), None),
            (
                "sleep shows in the monotonic clock",
                clocks(160_000, 91_000, 5_060_000),
                s(59),
            ),
            (
                "a pause shows once the real time clock is set",
                clocks(101_000, 91_000, 5_061_000),
                s(60),
            ),
            (
                "the real time clock goes back",
                clocks(101_000, 91_000, 4_990_000),
                s(11),
            ),
        ] {
            assert_eq!(now.jumped_since(&BEFORE), jump, "{sentence}");
        }
        let before = Clocks::now();
        assert_eq!(
            Clocks::now().jumped_since(&before),
            None,
            "this machine's clocks"
        );
    }
}
