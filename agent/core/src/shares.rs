//! Shares of a table of records about many IPs: a flood of records about one IP evicts its own records.

use std::collections::BTreeMap;

/// How many records each key holds.
#[derive(Debug, Clone)]
pub struct Shares<K> {
    of: BTreeMap<K, usize>,
    all: usize,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self {
            of: BTreeMap::new(),
            all: 0,
        }
    }
}

impl<K: Ord + Copy> Shares<K> {
    /// Returns a filter for the keys whose records may be evicted before `key` takes another one: `key` itself at the
    /// bound `own` of each key, the keys with most records at the bound `all` of the table. None if there is room.
    pub fn evictable(&self, key: K, own: usize, all: usize) -> Option<impl Fn(&K) -> bool> {
        let at_its_bound = self.count(&key) >= own;
        let most = self.of.values().copied().max().unwrap_or_default();
        let full = at_its_bound || self.all >= all;
        full.then_some(move |other: &K| {
            if at_its_bound {
                *other == key
            } else {
                self.count(other) == most
            }
        })
    }

    /// Counts a record that `key` takes.
    pub fn take(&mut self, key: K) {
        *self.of.entry(key).or_default() += 1;
        self.all += 1;
    }

    /// Counts a record that `key` gives back.
    pub fn give_back(&mut self, key: &K) {
        let Some(held) = self.of.get_mut(key) else {
            return;
        };
        *held -= 1;
        self.all -= 1;
        if *held == 0 {
            self.of.remove(key);
        }
    }

    fn count(&self, key: &K) -> usize {
        self.of.get(key).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evictable(shares: &Shares<u8>, key: u8, own: usize, all: usize) -> Vec<u8> {
        let evictable = shares.evictable(key, own, all);
        [1, 2, 3]
            .into_iter()
            .filter(|key| evictable.as_ref().is_some_and(|is| is(key)))
            .collect()
    }

    #[test]
    fn a_key_at_its_bound_evicts_its_own_entries_and_a_full_table_those_of_the_largest_keys() {
        let mut shares = Shares::default();
        for key in [1, 1, 2, 1] {
            assert_eq!(evictable(&shares, key, 3, 4), [0_u8; 0]);
            shares.take(key);
        }
        assert_eq!(evictable(&shares, 1, 3, 5), [1]);
        assert_eq!(evictable(&shares, 2, 3, 5), [0_u8; 0]);
        assert_eq!(evictable(&shares, 2, 3, 4), [1]);
        shares.give_back(&1);
        shares.give_back(&1);
        shares.take(3);
        shares.take(4);
        assert_eq!(evictable(&shares, 3, 3, 4), [1, 2, 3]);
    }
}
