//! A time of the agent's clock in few octets.

use std::time::Duration;

/// Nanoseconds of a clock that only goes forward; enough for 584 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(u64);

impl From<Duration> for Moment {
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Moment> for Duration {
    fn from(Moment(nanoseconds): Moment) -> Self {
        Self::from_nanos(nanoseconds)
    }
}
