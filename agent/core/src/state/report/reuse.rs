//! How long IPs have no owner between two pods, for metrics. Decides nothing.

use epguard_common::{Addr, Owner, Uid};
use std::collections::HashMap;
use std::time::Duration;

/// Released IPs that are stored; beyond it the oldest go, and their gap is not measured.
const REMEMBERED: usize = 65_536;

/// IPs without an owner, and the gaps that ended.
#[derive(Debug, Clone, Default)]
pub struct Reuse {
    released: HashMap<Addr, (Uid, Duration)>,
    gaps: Vec<Duration>,
}

impl Reuse {
    /// Stores a change of an IP's owner. A pod that takes an IP over while the last one still shows it ends a gap of 0.
    pub fn note(&mut self, now: Duration, ip: Addr, before: Option<&Owner>, after: Option<&Owner>) {
        match (before, after) {
            (Some(before), None) => {
                if self.released.len() >= REMEMBERED {
                    self.forget_older_half();
                }
                self.released.insert(ip, (before.uid, now));
            }
            (None, Some(after)) => {
                let released = self.released.remove(&ip);
                let other = released.filter(|(uid, _)| *uid != after.uid);
                self.gaps.extend(other.map(|(_, at)| now.saturating_sub(at)));
            }
            (Some(before), Some(after)) if before.uid != after.uid => self.gaps.push(Duration::ZERO),
            _ => {}
        }
    }

    /// The gaps that ended since the last call.
    pub fn take(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.gaps)
    }

    fn forget_older_half(&mut self) {
        let mut times: Vec<Duration> = self.released.values().map(|(_, at)| *at).collect();
        let (_, median, _) = times.select_nth_unstable(REMEMBERED / 2);
        let median = *median;
        self.released.retain(|_, (_, at)| *at > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Addr = Addr::v4([10, 0, 0, 1]);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn owner(name: &str) -> Owner {
        Owner {
            uid: Uid::parse(name).unwrap(),
            ..Owner::default()
        }
    }

    #[test]
    fn a_gap_lasts_from_the_release_to_the_next_owner() {
        let mut reuse = Reuse::default();
        reuse.note(s(1), X, None, Some(&owner("a")));
        reuse.note(s(5), X, Some(&owner("a")), None);
        reuse.note(s(12), X, None, Some(&owner("b")));
        reuse.note(s(13), X, Some(&owner("b")), Some(&owner("c")));
        assert_eq!(reuse.take(), [s(7), s(0)]);
        assert!(reuse.take().is_empty());
    }

    #[test]
    fn a_pod_that_comes_back_or_only_changes_its_flags_reuses_nothing() {
        let mut reuse = Reuse::default();
        reuse.note(s(5), X, Some(&owner("a")), None);
        reuse.note(s(6), X, None, Some(&owner("a")));
        let draining = Owner {
            flags: Owner::DRAINING,
            ..owner("a")
        };
        reuse.note(s(7), X, Some(&owner("a")), Some(&draining));
        assert!(reuse.take().is_empty());
    }

    #[test]
    fn the_list_of_released_ips_is_bounded_and_keeps_the_newest() {
        let mut reuse = Reuse::default();
        let ip = |number: usize| Addr::v4(u32::try_from(number).unwrap().to_be_bytes());
        for number in 0..=REMEMBERED {
            let now = Duration::from_millis(number as u64);
            reuse.note(now, ip(number), Some(&owner("a")), None);
        }
        assert!(reuse.released.len() <= REMEMBERED);
        reuse.note(s(100), ip(REMEMBERED), None, Some(&owner("b")));
        assert_eq!(reuse.take().len(), 1);
    }
}
