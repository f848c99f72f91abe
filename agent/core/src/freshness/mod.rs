//! Age of the view: per watch, the moment as of which it is proven complete. Pure: callers bring
//! the clock.
//!
//! A proof is a list of everything, or a freshness check: a consistent LIST of few objects with the
//! proof that the watch has shown everything up to it (agent: `watch::freshness_check`). The watch
//! is then fresh as of the time when the list was sent. An event or a bookmark alone is no proof: a
//! stream that lags by minutes goes on showing both.
//!
//! # What it costs the API server
//!
//! While nothing is denied: open watches only, and one freshness check of each watch whose stream
//! ended early. While something is denied, each watch is checked every 23 to 24 s (`--max-view-age`
//! 30 s): 2.6 requests a minute. A collection of over ten objects that shows no change for a second
//! needs a watch of up to 3 s besides: 5.1. A failed check is repeated after 3 s, then after twice
//! as long each time.

use crate::facts::Watched;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time that a freshness check takes in a healthy cluster: a second for an event, then a
/// short watch.
const CHECKED_WITHIN: Duration = Duration::from_secs(6);

/// Shortest wait before a freshness check is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// Freshness checks that may be sent within the allowed age, with those that are repeated.
const CHECKS: u32 = 3;

/// Requests a second that keep so many watches fresh: each check may take two, and a quarter
/// is to spare.
pub fn requests_per_second(watches: usize, max_age: Duration) -> u32 {
    let each = u32::try_from(watches)
        .unwrap_or(u32::MAX)
        .saturating_mul(2 * CHECKS);
    let seconds = u32::try_from(max_age.as_secs()).unwrap_or(u32::MAX).max(1);
    each.saturating_mul(5).div_ceil(seconds.saturating_mul(4))
}

/// What showed that a watch is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// Everything was listed.
    List,
    /// A consistent LIST of few objects, and the watch has shown everything up to it.
    FreshnessCheck,
}

/// The age of the view. Times are `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub struct Freshness {
    watches: BTreeMap<Watched, Watch>,
    random: fn() -> f64,
}

#[derive(Debug, Default)]
struct Watch {
    max_age: Duration,
    up: bool,
    /// Proofs as of this moment or before do not count: the last proof, or what voided it.
    after: Option<Duration>,
    proven: Option<(Duration, Proof)>,
    /// Age at which to ask for the next proof.
    patience: Duration,
    /// When to ask once more, and how many times the next proof was asked for.
    again: Option<(Duration, u32)>,
}

/// A watch whose freshness is to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Which watch.
    pub watch: Watched,
    /// The time until its last proof is too old; zero if it is, or if there is none.
    pub within: Duration,
}

impl Freshness {
    /// Starts without any proof. `random` returns a number from 0 to 1, by which freshness checks
    /// are early.
    pub fn new(ids: &[Watched], max_age: Duration, random: fn() -> f64) -> Self {
        let mut watches = BTreeMap::new();
        for id in ids {
            let watch = Watch {
                max_age,
                ..Watch::default()
            };
            watches.insert(*id, watch);
        }
        Self { watches, random }
    }

    /// Stores a proof: what the watch has shown up to now is everything that existed at `as_of`.
    pub fn proven(&mut self, id: Watched, as_of: Duration, by: Proof) {
        if let Some(watch) = self.watches.get_mut(&id)
            && watch.after.is_none_or(|after| after < as_of)
        {
            watch.patience = watch.patience(as_of, by, (self.random)());
            watch.after = Some(as_of);
            watch.proven = Some((as_of, by));
            watch.again = None;
        }
    }

    /// Stores whether a watch is connected. A watch that comes back is checked as soon as it
    /// matters.
    pub fn connected(&mut self, id: Watched, up: bool) {
        if let Some(watch) = self.watches.get_mut(&id) {
            if !watch.up {
                watch.again = None;
            }
            watch.up = up;
        }
    }

    /// Voids the proofs from before now: of one watch, since the API server has shown elsewhere
    /// what it lacks; or of all, since clocks jumped, or the API went back in time.
    pub fn void(&mut self, only: Option<Watched>, now: Duration) {
        for (id, watch) in &mut self.watches {
            if only.is_none_or(|only| only == *id) {
                watch.after = Some(now);
                watch.proven = None;
                watch.again = None;
            }
        }
    }

    /// The watch whose last proof is too old first, or that was never proven fresh, and the moment
    /// of that proof.
    pub fn least_fresh(&self) -> Option<(Watched, Option<Duration>)> {
        let least = self
            .watches
            .iter()
            .min_by_key(|(_, watch)| watch.deadline());
        least.map(|(id, watch)| (*id, watch.as_of()))
    }

    /// Age of the view: that of the least fresh watch. None if one was never proven fresh.
    pub fn age(&self, now: Duration) -> Option<Duration> {
        let (_, as_of) = self.least_fresh()?;
        as_of.map(|as_of| now.saturating_sub(as_of))
    }

    /// Age of one watch, and what proved it fresh.
    pub fn age_of(&self, id: Watched, now: Duration) -> Option<(Duration, Proof)> {
        let (as_of, by) = self.watches.get(&id)?.proven?;
        Some((now.saturating_sub(as_of), by))
    }

    /// True if the last proof of a watch is too old. False for a watch without proofs, on which no
    /// lease rests.
    pub fn is_stale(&self, id: Watched, now: Duration) -> bool {
        let deadline = self.watches.get(&id).and_then(Watch::deadline);
        deadline.is_some_and(|deadline| deadline < now)
    }

    /// When the view will be too old; none if it is.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        let first = self.watches.values().map(Watch::deadline).min()?;
        first.filter(|deadline| *deadline > now)
    }

    /// The watches to check now, which counts as asked. Only to be called while something is
    /// denied.
    pub fn due(&mut self, now: Duration) -> Vec<Due> {
        let mut due = Vec::new();
        for (id, watch) in &mut self.watches {
            if watch.up && watch.asks(now, (self.random)()) {
                let deadline = watch.deadline().unwrap_or(Duration::ZERO);
                due.push(Due {
                    watch: *id,
                    within: deadline.saturating_sub(now),
                });
            }
        }
        due
    }
}

impl Watch {
    fn as_of(&self) -> Option<Duration> {
        self.proven.map(|(as_of, _)| as_of)
    }

    fn deadline(&self) -> Option<Duration> {
        self.as_of().map(|as_of| as_of + self.max_age)
    }

    /// True if it is time to ask for a proof, which counts as asked. The same failure comes to all
    /// agents at once, so a random part spreads the repetitions.
    fn asks(&mut self, now: Duration, random: f64) -> bool {
        let due = self.as_of().map_or(now, |as_of| as_of + self.patience);
        let (again, times) = self.again.unwrap_or((due, 0));
        let asks = now >= due.max(again);
        if asks {
            let wait = RETRY.max(self.max_age / 10) * 2_u32.saturating_pow(times);
            let wait = wait.min(self.max_age).mul_f64(1.0 + 0.5 * random);
            self.again = Some((now + wait, times.saturating_add(1)));
        }
        asks
    }

    /// The age at which to ask for the proof after one as of `as_of`. The first proof after a while
    /// comes to all agents of a cluster at once, as its cause does; the ones after it are spread by
    /// their random part.
    fn patience(&self, as_of: Duration, by: Proof, random: f64) -> Duration {
        let with_time_to_answer = self.max_age.saturating_sub(CHECKED_WITHIN);
        let longest = (self.max_age * 4 / 5)
            .min(with_time_to_answer)
            .max(self.max_age / 3);
        let is_renewal = by == Proof::FreshnessCheck
            && self.deadline().is_some_and(|deadline| as_of <= deadline);
        let spread = if is_renewal { 0.05 } else { 0.5 };
        longest.mul_f64(1.0 - spread * random)
    }
}

#[cfg(test)]
mod tests;
