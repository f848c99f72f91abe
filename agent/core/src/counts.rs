//! Maps whose keys go with the last thing behind them.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// How many things there are behind each key, at least one: [`uncount`] takes them away.
pub type Counts<K> = BTreeMap<K, usize>;

/// The things behind each key, at least one: [`ungroup`] takes them away.
pub type Groups<K, V> = BTreeMap<K, BTreeSet<V>>;

/// Counts so many less behind a key; no more than there are. True if none is left of some.
pub fn uncount<K: Ord + Borrow<Q>, Q: Ord + ?Sized>(counts: &mut Counts<K>, key: &Q, less: usize) -> bool {
    let Some(count) = counts.get_mut(key) else {
        return false;
    };
    *count = count.saturating_sub(less);
    *count == 0 && counts.remove(key).is_some()
}

/// Removes one of the things behind a key.
pub fn ungroup<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V: Ord>(groups: &mut Groups<K, V>, key: &Q, value: &V) {
    let group = groups.get_mut(key);
    if group.is_some_and(|group| group.remove(value) && group.is_empty()) {
        groups.remove(key);
    }
}

/// The keys whose records may be evicted from a table before `key` takes another one: `key` itself at the bound `own` of each key,
/// so that a flood of records behind one key evicts its own; the keys with most records at the bound `all` of the table. None if
/// there is room.
pub fn evictable<K: Ord>(counts: &Counts<K>, key: &K, own: usize, all: usize) -> Option<impl Fn(&K) -> bool> {
    let at_its_bound = counts.get(key).is_some_and(|count| *count >= own);
    let most = counts.values().max();
    let is_full = at_its_bound || counts.values().sum::<usize>() >= all;
    is_full.then_some(move |other: &K| if at_its_bound { other == key } else { counts.get(other) == most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evictable(counts: &Counts<u8>, key: u8, own: usize, all: usize) -> Vec<u8> {
        let evictable = super::evictable(counts, &key, own, all);
        [1, 2, 3].into_iter().filter(|key| evictable.as_ref().is_some_and(|is| is(key))).collect()
    }

    #[test]
    fn a_key_at_its_bound_evicts_its_own_entries_and_a_full_table_those_of_the_largest_keys() {
        let mut counts = Counts::default();
        for key in [1, 1, 2, 1] {
            assert_eq!(evictable(&counts, key, 3, 4), [0_u8; 0]);
            *counts.entry(key).or_default() += 1;
        }
        assert_eq!(evictable(&counts, 1, 3, 5), [1]);
        assert_eq!(evictable(&counts, 2, 3, 5), [0_u8; 0]);
        assert_eq!(evictable(&counts, 2, 3, 4), [1]);
        uncount(&mut counts, &1, 1);
        uncount(&mut counts, &1, 1);
        counts.extend([(3, 1), (4, 1)]);
        assert_eq!(evictable(&counts, 3, 3, 4), [1, 2, 3]);
    }
}
