//! Times as people write and read them; the agent's clock is `CLOCK_BOOTTIME`.

use epguard_core::history::Chronicle;
use jiff::{SignedDuration, Timestamp};
use std::str::FromStr;
use std::time::Duration;

/// A moment that the operator names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// By the node's wall clock.
    At(Timestamp),
    /// So long before now.
    Ago(Duration),
}

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let ago = text.parse::<SignedDuration>().ok();
        ago.and_then(|ago| Duration::try_from(ago).ok())
            .map(Self::Ago)
            .ok_or("neither a time (2026-11-21T10:47:01Z) nor how long ago (90s, 5m, 1h30m)")
    }
}

impl Moment {
    /// The moment on the clock of the chronicle's steps, ms; 0 if it is before the clock's beginning.
    #[must_use]
    pub fn on(self, chronicle: &Chronicle) -> u64 {
        match self {
            Self::Ago(ago) => {
                let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
                chronicle.now_ms.saturating_sub(ago)
            }
            Self::At(at) => {
                let since = at.as_millisecond() - chronicle.wall_ms;
                chronicle.now_ms.saturating_add_signed(since)
            }
        }
    }
}

/// A moment of the chronicle in UTC, to the millisecond.
pub(crate) fn wall(chronicle: &Chronicle, at_ms: u64) -> String {
    let before = i64::try_from(chronicle.now_ms.abs_diff(at_ms)).unwrap_or(i64::MAX);
    let before = if at_ms > chronicle.now_ms { -before } else { before };
    let at = Timestamp::from_millisecond(chronicle.wall_ms.saturating_sub(before));
    at.map_or_else(|_| "?".to_owned(), |at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_a_moment_or_as_how_long_ago() {
        assert_eq!("90s".parse(), Ok(Moment::Ago(Duration::from_secs(90))));
        assert_eq!("2h".parse(), Ok(Moment::Ago(Duration::from_hours(2))));
        assert_eq!("1h30m".parse(), Ok(Moment::Ago(Duration::from_mins(90))));
        let at = Timestamp::from_millisecond(1_000).unwrap();
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(Moment::At(at)));
        for bad in ["", "yesterday", "-5m", "5", "99999999999999999999h"] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
    }

    #[test]
    fn wall_time_and_boot_time_translate_both_ways() {
        let chronicle = Chronicle {
            ip: "10.0.0.1".parse().unwrap(),
            steps: vec![],
            view: epguard_core::state::View::default(),
            began_ms: 0,
            now_ms: 5_000,
            wall_ms: 1_000_000,
            truncated: false,
            mode: "observe".into(),
        };
        assert_eq!(wall(&chronicle, 4_500), "1970-01-01T00:16:39.500Z");
        let moment: Moment = "1970-01-01T00:16:39.500Z".parse().unwrap();
        assert_eq!(moment.on(&chronicle), 4_500);
        assert_eq!(Moment::Ago(Duration::from_secs(2)).on(&chronicle), 3_000);
        assert_eq!(Moment::Ago(Duration::from_hours(2)).on(&chronicle), 0);
    }
}
