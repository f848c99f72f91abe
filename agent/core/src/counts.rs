//! Maps whose keys go with the last thing behind them.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// How many things there are behind each key.
#[derive(Debug, Clone)]
pub struct Counts<K> {
    of: HashMap<K, usize>,
    all: usize,
}

/// The things behind each key.
#[derive(Debug, Clone)]
pub struct Groups<K, V>(BTreeMap<K, BTreeSet<V>>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        let (of, all) = (HashMap::new(), 0);
        Self { of, all }
    }
}

impl<K, V> Default for Groups<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Eq + Hash> Counts<K> {
    /// How many there are.
    #[must_use]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.of.get(key).copied().unwrap_or_default()
    }

    /// True if there is one.
    #[must_use]
    pub fn has<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.of.contains_key(key)
    }

    /// How many there are behind all keys.
    #[must_use]
    pub const fn all(&self) -> usize {
        self.all
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.of.keys()
    }

    /// Counts so many more.
    pub fn add(&mut self, key: K, more: usize) {
        if more > 0 {
            *self.of.entry(key).or_default() += more;
            self.all += more;
        }
    }

    /// Counts so many less; no more than there are. True if none is left of some.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, less: usize) -> bool
    where
        K: Borrow<Q>,
    {
        let Some(count) = self.of.get_mut(key) else {
            return false;
        };
        let less = less.min(*count);
        *count -= less;
        self.all -= less;
        *count == 0 && self.of.remove(key).is_some()
    }

    /// The keys whose records may be evicted from a table before `key` takes another one: `key` itself at the bound `own` of each key,
    /// so that a flood of records behind one key evicts its own; the keys with most records at the bound `all` of the table. None if
    /// there is room.
    pub fn evictable(&self, key: &K, own: usize, all: usize) -> Option<impl Fn(&K) -> bool> {
        let at_its_bound = self.get(key) >= own;
        let most = self.of.values().copied().max().unwrap_or_default();
        let is_full = at_its_bound || self.all >= all;
        is_full.then_some(move |other: &K| if at_its_bound { other == key } else { self.get(other) == most })
    }
}

impl<K: Ord, V: Ord> Groups<K, V> {
    /// The things behind a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> impl Iterator<Item = &V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).into_iter().flatten()
    }

    /// Of the things behind a key, this one and all that are greater.
    pub fn from(&self, key: &K, first: V) -> impl Iterator<Item = &V> {
        self.0.get(key).into_iter().flat_map(move |group| group.range(&first..))
    }

    /// How many keys there are.
    #[must_use]
    pub fn count_keys(&self) -> usize {
        self.0.len()
    }

    /// True if there is something behind the key.
    pub fn has<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// How many things there are behind a key.
    pub fn count<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.0.get(key).map_or(0, BTreeSet::len)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    /// All keys, each with the least thing behind it.
    pub fn firsts(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().filter_map(|(key, group)| Some((key, group.first()?)))
    }

    /// This key and all that are greater.
    pub fn keys_from(&self, first: K) -> impl Iterator<Item = &K> {
        self.0.range(first..).map(|(key, _)| key)
    }

    /// Everything.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.values().flatten()
    }

    /// Adds something behind a key.
    pub fn insert(&mut self, key: K, value: V) {
        self.0.entry(key).or_default().insert(value);
    }

    /// Removes something from behind a key.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q, value: &V)
    where
        K: Borrow<Q>,
    {
        let group = self.0.get_mut(key);
        if group.is_some_and(|group| group.remove(value) && group.is_empty()) {
            self.0.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evictable(counts: &Counts<u8>, key: u8, own: usize, all: usize) -> Vec<u8> {
        let evictable = counts.evictable(&key, own, all);
        [1, 2, 3].into_iter().filter(|key| evictable.as_ref().is_some_and(|is| is(key))).collect()
    }

    #[test]
    fn a_key_at_its_bound_evicts_its_own_entries_and_a_full_table_those_of_the_largest_keys() {
        let mut counts = Counts::default();
        for key in [1, 1, 2, 1] {
            assert_eq!(evictable(&counts, key, 3, 4), [0_u8; 0]);
            counts.add(key, 1);
        }
        assert_eq!(evictable(&counts, 1, 3, 5), [1]);
        assert_eq!(evictable(&counts, 2, 3, 5), [0_u8; 0]);
        assert_eq!(evictable(&counts, 2, 3, 4), [1]);
        counts.remove(&1, 1);
        counts.remove(&1, 1);
        counts.add(3, 1);
        counts.add(4, 1);
        assert_eq!(evictable(&counts, 3, 3, 4), [1, 2, 3]);
    }
}
