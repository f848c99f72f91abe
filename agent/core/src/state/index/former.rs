//! What objects showed until a moment ago: packets go on to it, and connections through it stay
//! open.

use crate::counts::{Counts, uncount};
use crate::facts::{Text, shared};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long something counts after the last object that showed it, and the last packet to it.
pub const MEMORY: Duration = Duration::from_mins(10);

/// Things that left an owner's objects and still count; the oldest ones go first. An owner that
/// changes them all the time takes no more memory.
pub const OF_ONE: usize = 4_096;

/// Things that are forgotten at once: many owners, or one that starts over, can let very many leave
/// in one moment.
const AT_ONCE: usize = 1_024;

/// Stands for every owner. None has this name.
const ALL: &str = "";

/// Things that left their objects within [`MEMORY`].
#[derive(Debug, Clone)]
pub struct Former<K> {
    /// How many entries of `gone` have each.
    pub counts: Counts<K>,
    /// What left the objects of each owner, and when: the first one first.
    gone: BTreeMap<Text, VecDeque<(K, Duration)>>,
}

impl<K> Default for Former<K> {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            gone: BTreeMap::default(),
        }
    }
}

impl<K: Ord + Clone> Former<K> {
    pub fn contains(&self, key: &K) -> bool {
        self.counts.contains_key(key)
    }

    /// Adds something that left an object of an owner, which is a namespace or a Node.
    pub fn add(&mut self, now: Duration, owner: &str, key: K) {
        self.keep(now, owner, key);
        let gone = self.gone.get_mut(owner).filter(|gone| gone.len() > OF_ONE);
        if let Some((oldest, _)) = gone.and_then(VecDeque::pop_front) {
            uncount(&mut self.counts, &oldest, 1);
        }
    }

    /// Adds what the API has shown before the agent starts over: all of it counts. What was there
    /// at an earlier start, too, is kept once: each namespace can cause such starts.
    pub fn add_all(&mut self, now: Duration, keys: impl IntoIterator<Item = K>) {
        let keys: BTreeSet<K> = keys.into_iter().collect();
        if let Some(gone) = self.gone.get_mut(ALL) {
            gone.retain(|(key, _)| {
                let is_again = keys.contains(key);
                if is_again {
                    uncount(&mut self.counts, key, 1);
                }
                !is_again
            });
        }
        for key in keys {
            self.keep(now, ALL, key);
        }
    }

    /// Forgets what is gone for [`MEMORY`], of very much a part; returns what no entry has any
    /// more.
    pub fn forget(&mut self, now: Duration) -> Vec<K> {
        let mut old = Vec::new();
        let mut left = AT_ONCE;
        for gone in self.gone.values_mut() {
            while left > 0
                && let Some((_, at)) = gone.front()
                && now.saturating_sub(*at) >= MEMORY
                && let Some((key, _)) = gone.pop_front()
            {
                left -= 1;
                if uncount(&mut self.counts, &key, 1) {
                    old.push(key);
                }
            }
        }
        self.gone.retain(|_, gone| !gone.is_empty());
        old
    }

    fn keep(&mut self, now: Duration, owner: &str, key: K) {
        *self.counts.entry(key.clone()).or_default() += 1;
        self.gone
            .entry(shared(owner))
            .or_default()
            .push_back((key, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_changes_what_it_shows_all_the_time_keeps_the_last_and_what_others_showed_stays()
     {
        let mut former = Former::default();
        former.add(Duration::ZERO, "shop", 0);
        for number in 1..=3 * OF_ONE {
            former.add(Duration::ZERO, "flood", number);
        }
        assert_eq!(
            (former.counts.len(), former.gone["flood"].len()),
            (OF_ONE + 1, OF_ONE)
        );
        assert!(former.contains(&0) && former.contains(&(3 * OF_ONE)) && !former.contains(&1));
        let forgotten: Vec<usize> = (0..6).map(|_| former.forget(MEMORY).len()).collect();
        assert_eq!(
            forgotten,
            [AT_ONCE, AT_ONCE, AT_ONCE, AT_ONCE, 1, 0],
            "a part at a time"
        );
        assert_eq!((former.counts.len(), former.gone.len()), (0, 0));
    }

    #[test]
    fn what_was_there_at_several_starts_is_kept_once_from_the_last_one_on() {
        let mut former = Former::default();
        let later = Duration::from_secs(1);
        former.add_all(Duration::ZERO, [1, 2]);
        former.add(Duration::ZERO, "shop", 2);
        former.add_all(later, [2, 3]);
        assert_eq!(former.counts, [(1, 1), (2, 2), (3, 1)].into());
        assert_eq!(former.forget(MEMORY), [1]);
        assert_eq!(former.forget(MEMORY + later), [2, 3]);
        assert!(former.counts.is_empty());
    }
}
