//! How much of a table one namespace may fill, so that the others keep room for their denials.

use crate::counts::{Counts, uncount};
use crate::facts::{ObjectName, Text};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Quota of one table, with dynamic thresholds (Choudhury and Hahne 1998): a namespace may take an
/// entry only while it holds fewer than are free. A namespace that is alone fills half of the
/// table, or has `MOST` entries, and each other one finds room.
#[derive(Debug, Clone, Default)]
pub struct Quota<const CAPACITY: usize, const MOST: usize = CAPACITY> {
    of_namespaces: Counts<Text>,
    taken: usize,
}

impl<const CAPACITY: usize, const MOST: usize> Quota<CAPACITY, MOST> {
    /// True if the namespace may take this many entries more.
    pub fn admits(&self, namespace: &str, entries: usize) -> bool {
        let own = self
            .of_namespaces
            .get(namespace)
            .copied()
            .unwrap_or_default();
        entries == 0 || own + entries <= CAPACITY.saturating_sub(self.taken).min(MOST)
    }

    /// Counts entries that the namespace takes. [`Quota::admits`] was true.
    pub fn take(&mut self, namespace: Text, entries: usize) {
        if entries > 0 {
            *self.of_namespaces.entry(namespace).or_default() += entries;
            self.taken += entries;
        }
    }

    /// Counts entries that the namespace gives back.
    pub fn give_back(&mut self, namespace: &str, entries: usize) {
        let own = self
            .of_namespaces
            .get(namespace)
            .copied()
            .unwrap_or_default();
        self.taken -= entries.min(own);
        uncount(&mut self.of_namespaces, namespace, entries);
    }
}

/// Of what had no room, so many are tried again at once.
pub const RETRIED: usize = 256;

/// What had no room, and is tried again in turn, with the keys of two kinds that it may concern.
#[derive(Debug, Clone, Default)]
pub struct LeftOut<K, L> {
    pub all: BTreeSet<ObjectName>,
    /// The one that was tried last.
    last: ObjectName,
    pub keys: Counts<K>,
    pub others: Counts<L>,
}

impl<K: Ord, L: Ord> LeftOut<K, L> {
    pub fn add(
        &mut self,
        name: &ObjectName,
        keys: impl IntoIterator<Item = K>,
        others: impl IntoIterator<Item = L>,
    ) {
        self.all.insert(name.clone());
        keys.into_iter()
            .for_each(|key| *self.keys.entry(key).or_default() += 1);
        others
            .into_iter()
            .for_each(|other| *self.others.entry(other).or_default() += 1);
    }

    /// Removes what was added; false if it was not.
    pub fn remove(
        &mut self,
        name: &ObjectName,
        keys: impl IntoIterator<Item = K>,
        others: impl IntoIterator<Item = L>,
    ) -> bool {
        let known = self.all.remove(name);
        if known {
            for key in keys {
                uncount(&mut self.keys, &key, 1);
            }
            for other in others {
                uncount(&mut self.others, &other, 1);
            }
        }
        known
    }

    /// The next ones, at most so many; after the last one the first again.
    pub fn take_turn(&mut self, most: usize) -> Vec<ObjectName> {
        let after = self
            .all
            .range((Bound::Excluded(&self.last), Bound::Unbounded));
        let turn: Vec<ObjectName> = after
            .chain(self.all.range(..=&self.last))
            .take(most)
            .cloned()
            .collect();
        if let Some(name) = turn.last() {
            self.last = name.clone();
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(quota: &mut Quota<1000>, namespace: &str, wanted: usize) -> usize {
        let mut taken = 0;
        while taken < wanted && quota.admits(namespace, 1) {
            quota.take(namespace.into(), 1);
            taken += 1;
        }
        taken
    }

    #[test]
    fn a_namespace_takes_at_most_half_of_the_free_room() {
        let mut quota = Quota::default();
        assert_eq!(fill(&mut quota, "large", 5000), 500);
        assert_eq!(fill(&mut quota, "other", 5000), 250);
        assert_eq!(fill(&mut quota, "small", 10), 10);
        assert_eq!(fill(&mut quota, "large", 1), 0);
        quota.give_back("large", 400);
        assert_eq!(fill(&mut quota, "large", 5000), 270);
    }

    #[test]
    fn a_namespace_takes_no_more_than_one_may_have_however_much_is_free() {
        let mut quota = Quota::<1_000, 100>::default();
        assert!(quota.admits("large", 100) && !quota.admits("large", 101));
        quota.take("large".into(), 60);
        assert!(quota.admits("large", 40) && !quota.admits("large", 41));
        assert!(quota.admits("other", 100));
    }

    #[test]
    fn each_without_room_has_its_turn() {
        let name = |text: &str| crate::facts::ObjectName::new("ns", text);
        let all = ["a", "b", "c"].map(name).into();
        let mut waiting = LeftOut::<(), ()> {
            all,
            ..LeftOut::default()
        };
        let mut turn = |most| waiting.take_turn(most);
        assert_eq!(turn(2), [name("a"), name("b")]);
        assert_eq!(turn(2), [name("c"), name("a")]);
        assert_eq!(turn(9), [name("b"), name("c"), name("a")]);
    }

    #[test]
    fn several_entries_are_admitted_together_or_not_at_all() {
        let mut quota = Quota::<10>::default();
        assert!(quota.admits("large", 10) && !quota.admits("large", 11));
        quota.take("large".into(), 8);
        assert!(quota.admits("small", 2) && !quota.admits("small", 3));
        assert!(quota.admits("large", 0) && !quota.admits("large", 1));
    }
}
