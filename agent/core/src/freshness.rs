//! Age of the view: per watch, the moment as of which it is proven complete. Pure: callers bring the clock.
//!
//! A proof is a list of everything, or a confirmation: a consistent LIST of few objects with the proof that the watch
//! has shown everything up to it (agent: `watch::confirm`); fresh as of the time when the list was sent. An event or a
//! bookmark alone is none: a stream that lags by minutes goes on showing both.
//! # What it costs the API server
//!
//! Nothing while nothing is denied: open watches only, and one confirmation of each watch whose stream ended early.
//! While something is denied, each watch not proven fresh for a third of `--max-view-age` (30 s), give or take a fifth,
//! is confirmed: 6 requests a minute for each of the five watches, 30 per agent. A collection of over 50 objects
//! without changes needs a watch of up to 3 s besides: 60 at most. One of two may be lost before the lease ends.

use crate::facts::Watched;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Confirmations within the allowed age. With the longest jitter the second one comes at 0.8 of it.
const CONFIRMATIONS: u32 = 3;

/// Requests a second that keep so many watches fresh: each confirmation may take two, and a quarter is to spare.
#[must_use]
pub fn requests_per_second(watches: usize, max_age: Duration) -> u32 {
    let each = u32::try_from(watches)
        .unwrap_or(u32::MAX)
        .saturating_mul(2 * CONFIRMATIONS);
    let seconds = u32::try_from(max_age.as_secs()).unwrap_or(u32::MAX).max(1);
    each.saturating_mul(5).div_ceil(seconds.saturating_mul(4))
}

/// What showed that a watch is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// Everything was listed.
    List,
    /// A consistent LIST of few objects, and the watch has shown everything up to it.
    Confirmation,
}

/// The age of the view. Times are `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub struct Freshness {
    max_age: Duration,
    watches: BTreeMap<Watched, Watch>,
    jitter: fn() -> f64,
}

#[derive(Debug)]
struct Watch {
    up: bool,
    /// Proofs as of this moment or before do not count.
    void: Option<Duration>,
    proven: Option<(Duration, Proof)>,
    asked: Option<Duration>,
    patience: Duration,
}

impl Freshness {
    /// Starts without any proof. `jitter` returns the factor, about 1, by which the next confirmation is early or late.
    #[must_use]
    pub fn new(ids: &[Watched], max_age: Duration, jitter: fn() -> f64) -> Self {
        let watch = |id: &Watched| {
            let watch = Watch {
                up: false,
                void: None,
                proven: None,
                asked: None,
                patience: patience(max_age, jitter),
            };
            (*id, watch)
        };
        Self {
            max_age,
            watches: ids.iter().map(watch).collect(),
            jitter,
        }
    }

    /// Stores a proof: what the watch has shown up to now is everything that existed at `as_of`.
    pub fn proven(&mut self, id: Watched, as_of: Duration, by: Proof) {
        if let Some(watch) = self.watches.get_mut(&id)
            && watch.void.is_none_or(|void| void < as_of)
            && watch.proven.is_none_or(|(before, _)| before < as_of)
        {
            watch.proven = Some((as_of, by));
        }
    }

    /// Stores whether a watch is connected. A watch that comes back is confirmed as soon as it matters.
    pub fn connected(&mut self, id: Watched, up: bool) {
        if let Some(watch) = self.watches.get_mut(&id) {
            watch.asked = watch.asked.filter(|_| watch.up);
            watch.up = up;
        }
    }

    /// Voids all proofs from before now: clocks jumped, or the API went back in time.
    pub fn void(&mut self, now: Duration) {
        for watch in self.watches.values_mut() {
            watch.void(now);
        }
    }

    /// Voids the proofs of one watch from before now: the API server has shown elsewhere what the watch lacks.
    pub fn void_watch(&mut self, id: Watched, now: Duration) {
        if let Some(watch) = self.watches.get_mut(&id) {
            watch.void(now);
        }
    }

    /// The watch that was proven fresh longest ago, or never.
    #[must_use]
    pub fn least_fresh(&self) -> Option<(Watched, Option<Duration>)> {
        self.watches
            .iter()
            .map(|(id, watch)| (*id, watch.proven.map(|(as_of, _)| as_of)))
            .min_by_key(|(_, as_of)| *as_of)
    }

    /// Age of the view; none if some watch was never proven fresh.
    #[must_use]
    pub fn age(&self, now: Duration) -> Option<Duration> {
        let (_, as_of) = self.least_fresh()?;
        as_of.map(|as_of| now.saturating_sub(as_of))
    }

    /// Age of one watch, and what proved it fresh.
    #[must_use]
    pub fn of(&self, id: Watched, now: Duration) -> Option<(Duration, Proof)> {
        let (as_of, by) = self.watches.get(&id)?.proven?;
        Some((now.saturating_sub(as_of), by))
    }

    /// True if the last proof of a watch is too old. False for a watch without proofs, on which no lease rests.
    #[must_use]
    pub fn is_stale(&self, id: Watched, now: Duration) -> bool {
        self.of(id, now).is_some_and(|(age, _)| age > self.max_age)
    }

    /// When the view will be too old; none if it is.
    #[must_use]
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        let (_, as_of) = self.least_fresh()?;
        as_of
            .map(|as_of| as_of + self.max_age)
            .filter(|deadline| *deadline > now)
    }

    /// The watches to confirm now, which counts as asked. Only to be called while something is denied.
    pub fn due(&mut self, now: Duration) -> Vec<Watched> {
        let mut due = Vec::new();
        for (id, watch) in self.watches.iter_mut().filter(|(_, watch)| watch.up) {
            let last = watch.proven.map(|(as_of, _)| as_of).max(watch.asked);
            if last.is_none_or(|last| now >= last + watch.patience) {
                watch.asked = Some(now);
                watch.patience = patience(self.max_age, self.jitter);
                due.push(*id);
            }
        }
        due
    }
}

impl Watch {
    fn void(&mut self, now: Duration) {
        (self.void, self.proven, self.asked) = (Some(now), None, None);
    }
}

fn patience(max_age: Duration, jitter: fn() -> f64) -> Duration {
    (max_age / CONFIRMATIONS).mul_f64(jitter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Proof::{Confirmation, List};
    use Watched::{Nodes, Pods};

    const MAX: Duration = Duration::from_secs(30);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn both(at: u64) -> Freshness {
        let mut freshness = Freshness::new(&[Pods, Nodes], MAX, || 1.0);
        for id in [Pods, Nodes] {
            freshness.connected(id, true);
            freshness.proven(id, s(at), List);
        }
        freshness
    }

    #[test]
    fn a_view_is_as_old_as_its_least_fresh_watch() {
        let mut freshness = both(100);
        freshness.proven(Pods, s(120), Confirmation);
        assert_eq!(freshness.least_fresh(), Some((Nodes, Some(s(100)))));
        assert_eq!(freshness.age(s(125)), Some(s(25)));
        assert_eq!(freshness.of(Pods, s(125)), Some((s(5), Confirmation)));
        assert_eq!(freshness.deadline(s(125)), Some(s(130)));
        assert_eq!(freshness.deadline(s(130)), None);
    }

    #[test]
    fn a_watch_that_was_never_proven_fresh_leaves_the_view_without_age() {
        let mut freshness = Freshness::new(&[Pods, Nodes], MAX, || 1.0);
        freshness.proven(Pods, s(100), List);
        assert_eq!(freshness.least_fresh(), Some((Nodes, None)));
        assert_eq!((freshness.age(s(100)), freshness.deadline(s(100))), (None, None));
    }

    #[test]
    fn a_late_answer_never_makes_a_watch_older() {
        let mut freshness = both(100);
        freshness.proven(Pods, s(110), Confirmation);
        freshness.proven(Pods, s(105), Confirmation);
        assert_eq!(freshness.of(Pods, s(110)), Some((s(0), Confirmation)));
    }

    #[test]
    fn only_watches_without_a_recent_proof_are_confirmed() {
        let mut freshness = both(100);
        assert_eq!(freshness.due(s(109)), []);
        freshness.proven(Pods, s(109), Confirmation);
        assert_eq!(freshness.due(s(110)), [Nodes]);
        assert_eq!(freshness.due(s(111)), [], "asked just now");
        freshness.proven(Nodes, s(110), Confirmation);
        assert_eq!(freshness.due(s(119)), [Pods]);
        assert_eq!(freshness.due(s(120)), [Nodes]);
    }

    #[test]
    fn the_latest_jitter_and_a_lost_confirmation_still_keep_the_view_young_enough() {
        let mut freshness = Freshness::new(&[Pods], MAX, || 1.2);
        freshness.connected(Pods, true);
        freshness.proven(Pods, s(100), List);
        let asked: Vec<u64> = (100..160)
            .filter(|at| !freshness.due(s(*at)).is_empty())
            .collect();
        assert_eq!(asked, [112, 124, 136, 148]);
        assert!(
            freshness.deadline(s(124 + 4)).is_some(),
            "4 s for the second answer"
        );
    }

    #[test]
    fn all_watches_of_an_old_view_are_confirmed_at_once_when_a_denial_appears() {
        assert_eq!(both(100).due(s(500)), [Pods, Nodes]);
    }

    #[test]
    fn a_watch_that_is_down_is_not_confirmed_until_it_is_up_again() {
        let mut freshness = both(100);
        assert_eq!(freshness.due(s(110)), [Pods, Nodes]);
        freshness.connected(Pods, false);
        assert_eq!(freshness.due(s(120)), [Nodes]);
        assert_eq!(freshness.deadline(s(121)), Some(s(130)), "it only gets older");
        freshness.connected(Pods, true);
        assert_eq!(freshness.due(s(121)), [Pods]);
    }

    #[test]
    fn a_watch_that_lacks_an_object_is_confirmed_at_once_with_a_later_proof() {
        let mut freshness = both(100);
        assert_eq!(freshness.due(s(110)), [Pods, Nodes]);
        freshness.void_watch(Pods, s(111));
        assert_eq!(freshness.deadline(s(111)), None);
        assert_eq!(freshness.due(s(111)), [Pods]);
        freshness.proven(Pods, s(110), Confirmation);
        assert_eq!(
            freshness.deadline(s(112)),
            None,
            "sent while something was lacking"
        );
        freshness.proven(Pods, s(112), Confirmation);
        assert_eq!(
            freshness.deadline(s(112)),
            Some(s(130)),
            "the others' proofs stand"
        );
    }

    #[test]
    fn after_a_clock_jump_every_watch_needs_a_later_proof() {
        let mut freshness = both(100);
        freshness.void(s(101));
        assert_eq!(freshness.deadline(s(101)), None);
        assert_eq!(freshness.due(s(101)), [Pods, Nodes]);
        freshness.proven(Pods, s(102), Confirmation);
        freshness.proven(Nodes, s(101), Confirmation);
        assert_eq!(freshness.deadline(s(103)), None, "sent before the jump");
        freshness.proven(Nodes, s(102), Confirmation);
        assert_eq!(freshness.deadline(s(103)), Some(s(132)));
    }
}
