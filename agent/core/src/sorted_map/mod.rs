//! A sorted map of very many entries, most of which stay: an array, with a small tree of what is
//! new since it was built, and a mark for each entry that is gone since.
//!
//! A tree that grows entry by entry is a third to a half empty, and its nodes lie among all else in
//! the heap, so that what they leave empty is of no use. The array is full, and has pages of its
//! own.

mod marks;

use marks::Marks;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::mem::{replace, take};
use std::ops::Bound;

/// The array is built anew once more than this part of its entries has changed.
const PART: usize = 8;

/// A map of K to V in the order of K.
#[derive(Debug, Clone)]
pub struct SortedMap<K, V> {
    array: Vec<(K, V)>,
    /// Entries whose keys the array lacks.
    new: BTreeMap<K, V>,
    /// Entries of the array that are gone. Whoever writes slices can make them lie side by side, by
    /// the ten thousand.
    gone: Marks,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self {
            array: Vec::new(),
            new: BTreeMap::new(),
            gone: Marks::default(),
        }
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SortedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq> Eq for SortedMap<K, V> {}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.array.len() + self.new.len() - self.gone.count()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        match self.position(key) {
            Ok(at) if self.gone.has(at) => None,
            Ok(at) => Some(&self.array[at].1),
            Err(_) => self.new.get(key),
        }
    }

    /// The value of a key, to change it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self.position(key) {
            Ok(at) if self.gone.has(at) => None,
            Ok(at) => Some(&mut self.array[at].1),
            Err(_) => self.new.get_mut(key),
        }
    }

    /// All values, to change them; in no order, with some that are gone.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.array
            .iter_mut()
            .map(|(_, value)| value)
            .chain(self.new.values_mut())
    }

    /// True if the key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Adds an entry, or replaces the value of its key. Returns the value before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Ok(at) = self.position(&key) {
            let before = replace(&mut self.array[at].1, value);
            return if self.gone.clear(at) {
                None
            } else {
                Some(before)
            };
        }
        let before = self.new.insert(key, value);
        self.build_if_due();
        before
    }

    /// Removes an entry. True if it was there.
    pub fn remove(&mut self, key: &K) -> bool {
        let Ok(at) = self.position(key) else {
            return self.new.remove(key).is_some();
        };
        let was_there = self.gone.set(at);
        self.build_if_due();
        was_there
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.range(Bound::Unbounded)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The entries of `first` and of all greater keys.
    pub fn from(&self, first: K) -> impl Iterator<Item = (&K, &V)> {
        self.range(Bound::Included(first))
    }

    fn range(&self, first: Bound<K>) -> impl Iterator<Item = (&K, &V)> {
        let mut at = self
            .array
            .partition_point(|(key, _)| matches!(&first, Bound::Included(first) if key < first));
        let array = iter::from_fn(move || {
            at = self.gone.next_without(at);
            let (key, value) = self.array.get(at)?;
            at += 1;
            Some((key, value))
        });
        let mut array = array.peekable();
        let mut new = self.new.range((first, Bound::Unbounded)).peekable();
        iter::from_fn(move || match (array.peek(), new.peek()) {
            (Some((own, _)), Some((other, _))) if own > other => new.next(),
            (None, _) => new.next(),
            _ => array.next(),
        })
    }

    fn position(&self, key: &K) -> Result<usize, usize> {
        self.array.binary_search_by(|(own, _)| own.cmp(key))
    }

    fn build_if_due(&mut self) {
        if self.new.len() + self.gone.count() <= self.array.len() / PART {
            return;
        }
        let gone = take(&mut self.gone);
        let mut place = 0;
        self.array.retain(|_| {
            let stays = !gone.has(place);
            place += 1;
            stays
        });
        self.array.reserve_exact(self.new.len());
        self.array.extend(take(&mut self.new));
        // Two sorted runs: the sort merges them.
        self.array.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.array.shrink_to_fit();
    }
}

impl<K: Ord> SortedMap<K, u32> {
    /// Counts one thing more behind a key.
    pub fn count(&mut self, key: K) {
        if let Some(things) = self.get_mut(&key) {
            *things += 1;
        } else {
            self.insert(key, 1);
        }
    }

    /// Counts one thing less. The key goes with the last one.
    pub fn uncount(&mut self, key: &K) {
        if let Some(things) = self.get_mut(key)
            && *things > 1
        {
            *things -= 1;
        } else {
            self.remove(key);
        }
    }
}

impl<K: Ord + Copy> SortedMap<K, ()> {
    /// Takes the first keys, at most so many.
    pub fn take_first(&mut self, most: usize) -> BTreeSet<K> {
        let taken: BTreeSet<K> = self.keys().take(most).copied().collect();
        for key in &taken {
            self.remove(key);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16, u8),
        Remove(u16),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let key = 0..300_u16;
        prop_oneof![
            3 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Insert(key, value)),
            2 => key.prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_map_whatever_was_changed_before_and_after_its_array_was_built(
            steps in prop::collection::vec(any_step(), 0..600),
            first in 0..300_u16,
        ) {
            let (mut map, mut model) = (SortedMap::default(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Insert(key, value) => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    Step::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key).is_some()),
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.get(&first), model.get(&first));
                prop_assert_eq!(map.get_mut(&first), model.get_mut(&first));
            }
            for value in map.values_mut().chain(model.values_mut()) {
                *value = value.wrapping_add(1);
            }
            prop_assert!(map.iter().eq(model.iter()));
            prop_assert!(map.from(first).eq(model.range(first..)));
            prop_assert_eq!(map.is_empty(), model.is_empty());
            prop_assert_eq!(map.contains_key(&first), model.contains_key(&first));
        }
    }

    #[test]
    fn what_has_changed_since_the_array_was_built_stays_small() {
        let mut map = SortedMap::default();
        for number in 0..10_000_u32 {
            map.insert(number.reverse_bits(), ());
        }
        assert!(map.new.len() <= map.array.len() / PART);
        assert_eq!(map.array.capacity(), map.array.len());
    }
}
