//! The lease: until when the kernel may deny, and its renewal while the view is fresh.

use crate::shared::clock::{Clocks, milliseconds};
use epguard_core::freshness::Freshness;
use std::time::Duration;

/// Consecutive checks that find the lease over before the agent logs it: the first freshness checks
/// need a moment.
const PATIENCE: u32 = 2;

/// The deadline in the kernel, and the view that it depends on. Times are `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub struct Lease {
    /// The age of the view.
    pub view: Freshness,
    length: Duration,
    deadline: Duration,
    /// When it was ended before its time; 0 if it never was.
    revoked: Duration,
    /// Whether an earlier process granted it.
    is_inherited: bool,
    clocks: Clocks,
    /// Whether there were denials at the last check.
    is_needed: bool,
    /// Whether the lease ran after that.
    ran: bool,
    /// How often it ended while there were denials.
    lost: u64,
    missed: u32,
}

impl Lease {
    /// No lease yet. `length` is how long denials outlive the agent.
    pub fn new(view: Freshness, length: Duration, clocks: Clocks) -> Self {
        Self {
            view,
            length,
            deadline: Duration::ZERO,
            revoked: Duration::ZERO,
            is_inherited: false,
            clocks,
            is_needed: false,
            ran: false,
            lost: 0,
            missed: 0,
        }
    }

    /// Takes over a deadline that an earlier process has written.
    pub fn inheriting(self, deadline: Duration) -> Self {
        Self {
            deadline,
            is_inherited: true,
            ..self
        }
    }

    /// Ends what an earlier process granted, with the next renewal.
    pub fn end_inherited(&mut self) {
        self.is_inherited = false;
    }

    /// The end of the lease: after it nothing is denied.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Milliseconds until the lease ends, negative since it has ended; 0: none was granted yet.
    pub fn left_ms(&self, now: Duration) -> i64 {
        let end = self.deadline.max(self.revoked);
        if end.is_zero() {
            return 0;
        }
        milliseconds(end) - milliseconds(now)
    }

    /// How often the lease ended while there were denials.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Counts and logs that the lease has ended while there were denials, even if it is renewed at
    /// once. Call it before [`Lease::renew`], with whether there are denials.
    pub fn check(&mut self, now: Duration, denies: bool) {
        if self.ran && denies && self.deadline <= now {
            self.lost += 1;
            self.missed = PATIENCE;
            let (watch, as_of) = self.view.least_fresh().unzip();
            let unchecked = now.saturating_sub(self.clocks.boot);
            tracing::warn!(
                watch = watch.map(tracing::field::display),
                age_s = as_of
                    .flatten()
                    .map(|as_of| now.saturating_sub(as_of).as_secs()),
                unchecked_ms = u64::try_from(unchecked.as_millis()).unwrap_or(u64::MAX),
                "lease lost: packets to denied endpoints pass. The view is too old (age_s), the agent stood still \
                 (unchecked_ms), a fact waited for a second, or the clocks jumped"
            );
        }
        self.is_needed = denies;
    }

    /// The deadline to write into the kernel, if it has to change: `length` from now, but never
    /// later than the deadline of the view. Call it only when everything that came before the
    /// proofs is in the maps.
    ///
    /// The lease ends at once if the clocks jump, if `is_unread` (a fact has waited for long), if
    /// not everything is listed and judged (`synced`), and if a proof that the view depends on is
    /// void. What an earlier process granted stands until the first own lease.
    pub fn renew(&mut self, clocks: Clocks, synced: bool, is_unread: bool) -> Option<Duration> {
        let jump = clocks.jumped_since(&self.clocks);
        self.clocks = clocks;
        if let Some(jump) = jump {
            tracing::warn!(
                seconds = jump.as_secs(),
                "the clocks jumped (was the machine suspended or paused?); nothing is denied until every watch is proven \
                 fresh anew"
            );
            self.view.void(None, clocks.boot);
        }
        let now = clocks.boot;
        let own = if synced {
            self.view.deadline(now)
        } else {
            None
        };
        self.is_inherited &= own.is_none() && jump.is_none() && !is_unread;
        let granted = match own {
            Some(deadline) if !is_unread => deadline.min(now + self.length),
            None if self.is_inherited => self.deadline,
            _ => Duration::ZERO,
        };
        let ended = self.deadline > now && granted <= now;
        let half_over = now + self.length / 2 > self.deadline;
        let renewed = half_over && granted > self.deadline;
        if ended || renewed {
            self.deadline = granted;
        }
        if ended {
            self.revoked = now;
        }
        self.ran = self.is_needed && (ended || self.deadline > now);
        (ended || renewed).then_some(granted)
    }

    /// Logs once that the lease is over while there are denials, and once that it is back. Call it
    /// regularly.
    pub fn log(&mut self, now: Duration, denies: bool) {
        let lost = denies && self.deadline <= now;
        if lost {
            self.missed = self.missed.saturating_add(1);
            if self.missed == PATIENCE {
                let (watch, as_of) = self.view.least_fresh().unzip();
                tracing::warn!(
                    watch = watch.map(tracing::field::display),
                    age_s = as_of
                        .flatten()
                        .map(|as_of| now.saturating_sub(as_of).as_secs()),
                    "lease lost: the view is too old, so every packet passes"
                );
            }
        } else if std::mem::take(&mut self.missed) >= PATIENCE {
            tracing::info!("lease back: the view is fresh again, or nothing is denied");
        }
    }
}

/// How often to check leases and views of this length: often enough that the delay of one check
/// does not matter.
pub fn period(lease: Duration, max_age: Duration) -> Duration {
    (lease.min(max_age) / 12).clamp(Duration::from_millis(100), Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::Watched::{Nodes, Pods};
    use epguard_core::freshness::Proof::{FreshnessCheck, List};

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(seconds: u64) -> Clocks {
        Clocks {
            boot: s(seconds),
            monotonic: s(seconds),
            real: s(1_000_000 + seconds),
        }
    }

    /// A lease of 15 s on a view that may be 30 s old and was listed at second 100.
    fn lease() -> Lease {
        let mut view = Freshness::new(&[Pods, Nodes], s(30), || 0.0);
        for id in [Pods, Nodes] {
            view.connected(id, true);
            view.proven(id, s(100), List);
        }
        Lease::new(view, s(15), at(100))
    }

    #[test]
    fn a_lease_is_renewed_when_half_over_and_never_past_the_views_age() {
        let mut lease = lease();
        for (at_second, synced, proven, deadline) in [
            (100, false, None, None),
            (100, true, None, Some(115)),
            (107, true, None, None),
            (108, true, None, Some(123)),
            (116, true, None, Some(130)),
            (124, true, None, None),
            // One stale watch ends the lease, and its proof restores it.
            (125, true, Some(Pods), None),
            (131, true, None, None),
            (140, true, Some(Nodes), Some(155)),
            // A restart ends it.
            (141, false, None, Some(0)),
            (142, false, None, None),
        ] {
            if let Some(watch) = proven {
                lease.view.proven(watch, s(at_second), FreshnessCheck);
            }
            assert_eq!(
                lease.renew(at(at_second), synced, false),
                deadline.map(s),
                "at {at_second} s"
            );
        }
    }

    #[test]
    fn a_clock_jump_ends_the_lease_at_once_and_only_fresh_proofs_restore_it() {
        let mut lease = lease();
        lease.renew(at(100), true, false);
        let paused = Clocks {
            real: s(1_000_200),
            ..at(101)
        };
        assert_eq!(lease.renew(paused, true, false), Some(s(0)));
        let later = |seconds: u64| Clocks {
            real: s(1_000_099 + seconds),
            ..at(seconds)
        };
        lease.view.proven(Pods, s(102), FreshnessCheck);
        assert_eq!(lease.renew(later(102), true, false), None);
        lease.view.proven(Nodes, s(102), FreshnessCheck);
        assert_eq!(lease.renew(later(102), true, false), Some(s(117)));
    }

    #[test]
    fn a_watch_that_lacks_an_object_ends_the_lease_at_once_and_its_own_proof_restores_it() {
        let mut lease = lease();
        lease.renew(at(100), true, false);
        lease.view.void(Some(Pods), s(101));
        assert_eq!(lease.renew(at(101), true, false), Some(s(0)));
        assert_eq!(lease.renew(at(102), true, false), None);
        lease.view.proven(Pods, s(102), FreshnessCheck);
        assert_eq!(lease.renew(at(102), true, false), Some(s(117)));
    }

    #[test]
    fn what_an_earlier_process_granted_stands_until_the_first_own_lease_but_no_fact_waits_for_a_second()
     {
        let inheriting = || lease().inheriting(s(110));
        let mut patient = inheriting();
        assert_eq!(patient.renew(at(101), false, false), None);
        assert_eq!(
            patient.renew(at(102), true, false),
            None,
            "more than half is left"
        );
        assert_eq!(patient.renew(at(103), true, false), Some(s(118)));
        assert_eq!(
            patient.renew(at(104), false, false),
            Some(s(0)),
            "it starts over"
        );
        assert_eq!(
            inheriting().renew(at(101), false, true),
            Some(s(0)),
            "a fact waits"
        );
        let paused = Clocks {
            real: s(1_000_200),
            ..at(101)
        };
        assert_eq!(
            inheriting().renew(paused, false, false),
            Some(s(0)),
            "the clocks jumped"
        );
        let mut went_back = inheriting();
        went_back.end_inherited();
        assert_eq!(went_back.renew(at(101), false, false), Some(s(0)));
    }

    #[test]
    fn a_lease_that_was_ended_before_its_time_has_ended_since_then() {
        let mut lease = lease();
        assert_eq!(lease.left_ms(s(99)), 0, "none yet");
        lease.renew(at(100), true, false);
        assert_eq!(lease.left_ms(s(101)), 14_000);
        lease.renew(at(102), false, false);
        assert_eq!(lease.left_ms(s(105)), -3000);
        lease.renew(at(106), true, false);
        assert_eq!(lease.left_ms(s(107)), 14_000);
    }

    #[test]
    fn a_lease_that_ends_while_it_is_needed_is_counted_once_even_if_it_is_renewed_at_once() {
        let mut lease = lease();
        let mut at_second = |at_second: u64, denies: bool, sound: bool| {
            for id in [Pods, Nodes] {
                lease.view.proven(id, s(at_second), FreshnessCheck);
            }
            lease.check(s(at_second), denies);
            lease.renew(at(at_second), sound, false);
            lease.lost()
        };
        assert_eq!(at_second(110, false, true), 0);
        assert_eq!(
            at_second(140, true, true),
            0,
            "nothing was denied when it ended"
        );
        assert_eq!(at_second(150, true, true), 0);
        assert_eq!(at_second(170, true, true), 1, "the agent stood still");
        assert_eq!(at_second(171, true, true), 1);
        assert_eq!(at_second(172, true, false), 1);
        assert_eq!(at_second(173, true, false), 2, "a fact waits");
        assert_eq!(at_second(174, true, true), 2);
        assert_eq!(at_second(200, false, true), 2, "nothing is denied any more");
    }

    /// What docs/upgrade.md promises: a freshness check takes 4 s at most.
    #[test]
    fn a_second_of_the_lease_is_left_at_any_moment_while_freshness_checks_take_their_longest() {
        let mut view = Freshness::new(&[Pods], s(30), || 0.0);
        view.connected(Pods, true);
        view.proven(Pods, s(100), List);
        let mut lease = Lease::new(view, s(15), at(100));
        let (mut answers, mut left) = (Vec::new(), Vec::new());
        for second in 100..400 {
            for (asked, _) in answers
                .extract_if(.., |(_, answered)| *answered <= second)
                .collect::<Vec<_>>()
            {
                // It was sent a moment later, so that the next one is asked for at the tick after
                // it is due.
                let sent = s(asked) + Duration::from_millis(1);
                lease.view.proven(Pods, sent, FreshnessCheck);
            }
            lease.renew(at(second), true, false);
            if !lease.view.due(s(second)).is_empty() {
                answers.push((second, second + 4));
            }
            // Until just before the next check.
            left.push(lease.deadline().saturating_sub(s(second + 1)));
        }
        left.sort();
        assert_eq!(left[0].as_secs(), 1);
        assert!(left[left.len() / 4] >= s(6), "{left:?}");
    }

    #[test]
    fn short_leases_are_checked_more_often() {
        assert_eq!(period(s(15), s(30)), s(1));
        assert_eq!(period(s(3), s(30)), Duration::from_millis(250));
    }
}
