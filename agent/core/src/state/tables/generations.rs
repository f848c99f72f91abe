//! The number of an IP's owners so far (generation), and the last owner of each IP that has none
//! now, for [`MEMORY`]. No number comes twice for an IP.

use crate::state::index::former::MEMORY;
use epguard_common::{Addr, Owner, Uid};
use std::collections::HashMap;
use std::time::Duration;

/// So many IPs without an owner are remembered. A pod can show other IPs all the time.
const MOST: usize = 16_384;

/// The last owner of each IP that has none now, and since when.
#[derive(Debug, Clone, Default)]
pub struct Generations {
    idle: HashMap<Addr, (Owner, Duration)>,
    /// The greatest number that was dropped: a new entry begins above it.
    forgotten: u64,
    /// How long IPs had no owner, for those that got another one. Decides nothing.
    pub gaps: Vec<Duration>,
}

impl Generations {
    /// Returns the number of owners so far of an IP that a pod owns now; `before` is its owner
    /// until now, if any. A pod that takes an IP over while the last one still shows it ends a gap
    /// of 0.
    pub fn owned(&mut self, now: Duration, ip: Addr, before: Option<&Owner>, owner: Uid) -> u64 {
        let idle = self.idle.remove(&ip);
        let Some((last, since)) = before.map(|before| (*before, now)).or(idle) else {
            return self.forgotten + 1;
        };
        let is_new = last.uid != owner;
        self.gaps.extend(is_new.then(|| now.saturating_sub(since)));
        last.generation + u64::from(is_new)
    }

    /// Stores the last owner of an IP that has none any more.
    pub fn idle(&mut self, ip: Addr, before: &Owner, now: Duration) {
        self.idle.insert(ip, (*before, now));
    }

    /// The last owner of an IP that has none now, if known.
    pub fn last_owner(&self, ip: Addr) -> Option<Uid> {
        self.idle.get(&ip).map(|(last, _)| last.uid)
    }

    /// Drops IPs that have had no owner for [`MEMORY`], except those `in_use`, whose last owner
    /// decides something. If more than [`MOST`] have none, drops all but these.
    pub fn expire(&mut self, now: Duration, in_use: impl Fn(Addr) -> bool) {
        let memory = if self.idle.len() > MOST {
            Duration::ZERO
        } else {
            MEMORY
        };
        let forgotten = &mut self.forgotten;
        let is_due = |ip: &Addr, (_, since): &mut (Owner, Duration)| {
            now.saturating_sub(*since) >= memory && !in_use(*ip)
        };
        for (_, (last, _)) in self.idle.extract_if(is_due) {
            *forgotten = last.generation.max(*forgotten);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Addr = Addr::v4([10, 244, 1, 10]);
    const NOW: Duration = Duration::from_secs(7);

    fn owner(name: &str, generation: u64) -> Owner {
        Owner {
            uid: uid(name),
            generation,
            ..Owner::default()
        }
    }

    fn uid(text: &str) -> Uid {
        Uid::parse(text).unwrap()
    }

    /// A had the IP until second 0.
    fn idle() -> Generations {
        let mut generations = Generations::default();
        assert_eq!(generations.owned(NOW, X, None, uid("a")), 1);
        generations.idle(X, &owner("a", 1), Duration::ZERO);
        generations
    }

    #[test]
    fn an_ip_that_is_idle_for_long_is_dropped_and_its_generation_numbers_are_not_reused() {
        let mut generations = idle();
        assert_eq!(generations.owned(NOW, X, None, uid("b")), 2);
        generations.idle(X, &owner("b", 2), Duration::ZERO);
        generations.expire(MEMORY / 2, |_| false);
        assert_eq!(generations.last_owner(X), Some(uid("b")));
        generations.expire(MEMORY, |_| false);
        assert_eq!(
            (generations.idle.len(), generations.last_owner(X)),
            (0, None)
        );
        assert_eq!(generations.owned(NOW, X, None, uid("b")), 3);
    }

    #[test]
    fn of_very_many_idle_ips_only_those_in_use_stay_and_no_number_comes_twice() {
        let ip = |number: usize| Addr {
            octets: (number as u128).to_be_bytes(),
        };
        let mut generations = Generations::default();
        for number in 0..MOST {
            generations.idle(ip(number), &owner("a", 3), NOW);
        }
        generations.expire(NOW, |_| false);
        assert_eq!(generations.idle.len(), MOST);
        generations.idle(X, &owner("a", 3), NOW);
        generations.expire(NOW, |ip| ip == X);
        assert_eq!(
            (generations.idle.len(), generations.last_owner(X)),
            (1, Some(uid("a")))
        );
        assert_eq!(generations.owned(NOW, ip(0), None, uid("b")), 4);
    }

    #[test]
    fn an_ip_that_is_in_use_stays_and_only_another_owner_counts_and_ends_a_gap() {
        let mut generations = idle();
        generations.expire(MEMORY, |ip| ip == X);
        assert_eq!(generations.last_owner(X), Some(uid("a")));
        assert_eq!(generations.owned(NOW, X, None, uid("a")), 1);
        assert_eq!(generations.idle.len(), 0);
        assert_eq!(generations.gaps, [], "it comes back to the same pod");
        let mut generations = idle();
        generations.owned(NOW, X, None, uid("b"));
        generations.owned(NOW, X, Some(&owner("b", 2)), uid("c"));
        assert_eq!(
            generations.gaps,
            [NOW, Duration::ZERO],
            "from the release to the next owner"
        );
        assert_eq!(generations.owned(NOW, X, Some(&owner("a", 7)), uid("a")), 7);
        assert_eq!(
            generations.owned(NOW, X, Some(&owner("a", 7)), uid("b")),
            8,
            "another owner"
        );
    }
}
