//! The last owner of each IP, and the number of its owners so far (generation). Bounded; no number comes twice for an
//! IP.

use super::MEMORY;
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The last owner of each IP.
#[derive(Debug, Clone, Default)]
pub struct Generations {
    known: HashMap<Addr, Last>,
    /// Since when an IP has had no owner.
    idle: BTreeMap<Addr, Duration>,
    /// The greatest number that was dropped: a new entry begins above it.
    forgotten: u64,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    owner: Uid,
    generation: u64,
}

impl Generations {
    /// Stores that a pod owns the IP; returns the number of its owners so far.
    pub fn owned(&mut self, ip: Addr, owner: Uid) -> u64 {
        let first = Last {
            owner,
            generation: self.forgotten + 1,
        };
        let last = self.known.entry(ip).or_insert(first);
        if last.owner != owner {
            last.generation += 1;
        }
        last.owner = owner;
        self.idle.remove(&ip);
        last.generation
    }

    /// Stores that the IP has no owner.
    pub fn idle(&mut self, ip: Addr, now: Duration) {
        if self.known.contains_key(&ip) {
            self.idle.entry(ip).or_insert(now);
        }
    }

    /// The last owner of the IP, if known.
    #[must_use]
    pub fn last_owner(&self, ip: Addr) -> Option<Uid> {
        self.known.get(&ip).map(|last| last.owner)
    }

    /// Drops IPs that have had no owner for [`MEMORY`], except those `in_use`.
    pub fn expire(&mut self, now: Duration, in_use: impl Fn(Addr) -> bool) {
        let (known, forgotten) = (&mut self.known, &mut self.forgotten);
        self.idle.retain(|ip, idle| {
            let stays = now.saturating_sub(*idle) < MEMORY || in_use(*ip);
            if !stays && let Some(last) = known.remove(ip) {
                *forgotten = last.generation.max(*forgotten);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Addr = Addr::v4([10, 244, 1, 10]);

    fn uid(text: &str) -> Uid {
        Uid::parse(text).unwrap()
    }

    /// A had the IP until second 0.
    fn idle() -> Generations {
        let mut generations = Generations::default();
        generations.owned(X, uid("a"));
        generations.idle(X, Duration::ZERO);
        generations
    }

    #[test]
    fn an_ip_that_is_idle_for_long_is_dropped_and_its_generation_numbers_are_not_reused() {
        let mut generations = idle();
        assert_eq!(generations.owned(X, uid("b")), 2);
        generations.idle(X, Duration::ZERO);
        generations.expire(MEMORY / 2, |_| false);
        assert_eq!(generations.last_owner(X), Some(uid("b")));
        generations.expire(MEMORY, |_| false);
        assert_eq!((generations.known.len(), generations.last_owner(X)), (0, None));
        assert_eq!(generations.owned(X, uid("b")), 3);
    }

    #[test]
    fn an_ip_that_is_owned_again_or_in_use_stays() {
        let mut generations = idle();
        generations.expire(MEMORY, |ip| ip == X);
        assert_eq!(generations.last_owner(X), Some(uid("a")));
        assert_eq!(generations.owned(X, uid("a")), 1);
        generations.expire(MEMORY * 2, |_| false);
        assert_eq!(generations.last_owner(X), Some(uid("a")));
    }
}
