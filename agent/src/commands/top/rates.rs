//! Converts counters to packets a second. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::iter::Sum;
use std::time::Duration;

/// How many refreshes the curve goes back.
pub(super) const REMEMBERED: usize = 60;

/// Packets a second, to a tenth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Rate {
    /// In tenths.
    pub(super) tenths: u64,
}

impl Rate {
    pub(super) fn of(packets: u64, within: Duration) -> Self {
        let ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).max(1);
        Self {
            tenths: packets.saturating_mul(10_000).saturating_add(ms / 2) / ms,
        }
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(rates: I) -> Self {
        Self {
            tenths: rates.fold(0, |sum, rate| sum.saturating_add(rate.tenths)),
        }
    }
}

/// `12.3`, `123k`, `12M`: at most seven characters for all that a node can send.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.tenths {
            tenths @ 0..1_000_000 => format!("{}.{}", tenths / 10, tenths % 10),
            tenths @ 1_000_000..1_000_000_000 => format!("{}k", tenths / 10_000),
            tenths => format!("{}M", tenths / 10_000_000),
        };
        f.pad(&text)
    }
}

/// A rate for people; a dash where none is known.
pub(super) fn shown(rate: Option<Rate>) -> String {
    rate.map_or("-".to_owned(), |rate| rate.to_string())
}

/// Counters that grow, and how fast they did between the last two readings.
#[derive(Debug)]
pub(super) struct Meter<K> {
    read: Option<(Duration, BTreeMap<K, u64>)>,
    rates: Option<BTreeMap<K, Rate>>,
}

impl<K: Ord + Clone> Meter<K> {
    pub(super) fn new() -> Self {
        Self {
            read: None,
            rates: None,
        }
    }

    /// The counters at the time `at`.
    pub(super) fn read(&mut self, at: Duration, counts: BTreeMap<K, u64>) {
        self.rates = self
            .read
            .take()
            .map(|(before, counted)| rates(&counted, &counts, at.saturating_sub(before)));
        self.read = Some((at, counts));
    }

    /// Notes that the counters could not be read: there are no rates until they can be.
    pub(super) fn missed(&mut self) {
        self.rates = None;
    }

    /// The rate of a counter; none without two readings.
    pub(super) fn rate(&self, key: &K) -> Option<Rate> {
        let rates = self.rates.as_ref()?;
        Some(rates.get(key).copied().unwrap_or_default())
    }

    /// The sum of the rates of all that are `wanted`.
    pub(super) fn sum(&self, wanted: impl Fn(&K) -> bool) -> Option<Rate> {
        let rates = self.rates.as_ref()?.iter();
        Some(rates.filter(|(key, _)| wanted(key)).map(|(_, rate)| *rate).sum())
    }
}

/// Rates of all counters. One that is new or fell began anew, at zero.
fn rates<K: Ord + Clone>(
    before: &BTreeMap<K, u64>,
    now: &BTreeMap<K, u64>,
    elapsed: Duration,
) -> BTreeMap<K, Rate> {
    let rate = |key: &K, count: u64| {
        let counted = before.get(key).copied().unwrap_or_default();
        Rate::of(count.checked_sub(counted).unwrap_or(count), elapsed)
    };
    now.iter()
        .map(|(key, count)| (key.clone(), rate(key, *count)))
        .collect()
}

/// The latest rates, the newest last.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Rate>);

impl History {
    pub(super) fn push(&mut self, rate: Rate) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(rate);
    }

    /// The newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = Rate> {
        self.0.iter().rev().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(readings: &[(u64, &[(&'static str, u64)])]) -> Meter<&'static str> {
        let mut meter = Meter::new();
        for (ms, counts) in readings {
            meter.read(Duration::from_millis(*ms), counts.iter().copied().collect());
        }
        meter
    }

    fn tenths(meter: &Meter<&'static str>, key: &'static str) -> Option<u64> {
        meter.rate(&key).map(|rate| rate.tenths)
    }

    #[test]
    fn one_reading_is_no_rate() {
        let one = meter(&[(1000, &[("a", 7)])]);
        assert_eq!((tenths(&one, "a"), one.sum(|_| true)), (None, None));
    }

    #[test]
    fn a_rate_is_per_second_however_long_the_refresh_took() {
        let meter = meter(&[(1000, &[("a", 7), ("b", 1)]), (3500, &[("a", 32), ("b", 1)])]);
        assert_eq!((tenths(&meter, "a"), tenths(&meter, "b")), (Some(100), Some(0)));
        assert_eq!(meter.sum(|_| true), Some(Rate { tenths: 100 }));
    }

    #[test]
    fn a_counter_that_is_new_or_fell_began_at_zero() {
        let meter = meter(&[(0, &[("fell", 1000)]), (1000, &[("fell", 3), ("new", 2)])]);
        assert_eq!(
            (tenths(&meter, "fell"), tenths(&meter, "new")),
            (Some(30), Some(20))
        );
    }

    #[test]
    fn a_missed_reading_has_no_rate_and_its_count_joins_the_next_one() {
        let mut meter = meter(&[(0, &[("a", 0)]), (1000, &[("a", 5)])]);
        meter.missed();
        assert_eq!(tenths(&meter, "a"), None);
        meter.read(Duration::from_secs(11), BTreeMap::from([("a", 25)]));
        assert_eq!(tenths(&meter, "a"), Some(20));
    }

    #[test]
    fn two_readings_at_one_moment_do_not_divide_by_zero() {
        let meter = meter(&[(5, &[("a", 0)]), (5, &[("a", u64::MAX)])]);
        assert!(tenths(&meter, "a").is_some());
    }

    #[test]
    fn rates_are_short() {
        let texts = [0, 5, 1234, 999_999, 1_000_000, 1_234_000_000].map(|tenths| Rate { tenths }.to_string());
        assert_eq!(texts, ["0.0", "0.5", "123.4", "99999.9", "100k", "123M"]);
    }

    #[test]
    fn the_curve_keeps_only_the_samples_that_it_shows() {
        let mut history = History::default();
        for tenths in 0..100 {
            history.push(Rate { tenths });
        }
        assert_eq!(history.newest().count(), REMEMBERED);
        assert_eq!(history.newest().next(), Some(Rate { tenths: 99 }));
    }
}
