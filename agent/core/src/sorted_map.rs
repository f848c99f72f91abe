//! A sorted map of very many entries, most of which stay: an array, with a small tree of what has changed since it was built.
//!
//! A tree that grows entry by entry is a third to a half empty, and its nodes lie among all else in the heap, so that what they leave
//! empty is of no use. The array is full, and has pages of its own.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::iter::{self, Peekable};

/// The array is built anew once the tree has more than this part of its entries.
const PART: usize = 8;

/// A map of K to V in the order of K.
#[derive(Debug, Clone)]
pub struct SortedMap<K, V> {
    array: Vec<(K, V)>,
    /// Keys that the array lacks, with their values; keys of it that are gone, with none.
    changes: BTreeMap<K, Option<V>>,
    /// How many keys of the array are gone.
    gone: usize,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self { array: Vec::new(), changes: BTreeMap::new(), gone: 0 }
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SortedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq> Eq for SortedMap<K, V> {}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SortedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

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
    #[must_use]
    pub fn len(&self) -> usize {
        self.array.len() + self.changes.len() - 2 * self.gone
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        match self.changes.get(key) {
            Some(change) => change.as_ref(),
            None => self.position(key).ok().map(|at| &self.array[at].1),
        }
    }

    /// The value of a key, to change it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self.position(key) {
            Ok(at) => (!self.changes.contains_key(key)).then(|| &mut self.array[at].1),
            Err(_) => self.changes.get_mut(key)?.as_mut(),
        }
    }

    /// All values, to change them; in no order, with some that are gone.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let array = self.array.iter_mut().map(|(_, value)| value);
        array.chain(self.changes.values_mut().flatten())
    }

    /// True if the key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Adds an entry, or replaces the value of its key. Returns the value before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Ok(at) = self.position(&key) {
            let before = std::mem::replace(&mut self.array[at].1, value);
            let was_gone = self.changes.remove(&key).is_some();
            self.gone -= usize::from(was_gone);
            return (!was_gone).then_some(before);
        }
        let before = self.changes.insert(key, Some(value)).flatten();
        self.build_if_due();
        before
    }

    /// Removes an entry. True if it was there.
    pub fn remove(&mut self, key: &K) -> bool
    where
        K: Clone,
    {
        if self.position(key).is_err() {
            return self.changes.remove(key).is_some();
        }
        let was_there = self.changes.insert(key.clone(), None).is_none();
        self.gone += usize::from(was_there);
        self.build_if_due();
        was_there
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        merged(self.array.iter(), self.changes.range(..))
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
        let at = self.position(&first).unwrap_or_else(|at| at);
        merged(self.array[at..].iter(), self.changes.range(first..))
    }

    fn position(&self, key: &K) -> Result<usize, usize> {
        self.array.binary_search_by(|(own, _)| own.cmp(key))
    }

    fn build_if_due(&mut self) {
        if self.changes.len() <= self.array.len() / PART {
            return;
        }
        let mut all = Vec::with_capacity(self.len());
        let mut changes = std::mem::take(&mut self.changes).into_iter().peekable();
        for (key, value) in std::mem::take(&mut self.array) {
            while let Some((new, value)) = changes.next_if(|(changed, _)| *changed < key) {
                all.extend(value.map(|value| (new, value)));
            }
            if changes.next_if(|(changed, _)| *changed == key).is_none() {
                all.push((key, value));
            }
        }
        all.extend(changes.filter_map(|(key, value)| Some((key, value?))));
        self.array = all;
        self.gone = 0;
    }
}

impl<K: Ord + Copy> SortedMap<K, ()> {
    /// Takes the first keys, at most so many.
    pub fn take_first(&mut self, most: usize) -> BTreeSet<K> {
        if self.len() <= most {
            return std::mem::take(self).keys().copied().collect();
        }
        let taken: BTreeSet<K> = self.keys().take(most).copied().collect();
        for key in &taken {
            self.remove(key);
        }
        taken
    }
}

/// Entries of the array and of the tree, without those that are gone.
fn merged<'a, K: Ord, V>(
    array: std::slice::Iter<'a, (K, V)>,
    changes: btree_map::Range<'a, K, Option<V>>,
) -> impl Iterator<Item = (&'a K, &'a V)> {
    let (mut array, mut changes) = (array.peekable(), changes.peekable());
    iter::from_fn(move || {
        loop {
            match first(&mut array, &mut changes)? {
                Ordering::Less => return array.next().map(|(key, value)| (key, value)),
                Ordering::Greater => {
                    if let (key, Some(value)) = changes.next()? {
                        return Some((key, value));
                    }
                }
                Ordering::Equal => drop((array.next(), changes.next())),
            }
        }
    })
}

/// Less: the array's entry comes first. Equal: it is gone.
fn first<'a, K: Ord + 'a, V: 'a>(
    array: &mut Peekable<std::slice::Iter<'a, (K, V)>>,
    changes: &mut Peekable<btree_map::Range<'a, K, Option<V>>>,
) -> Option<Ordering> {
    match (array.peek(), changes.peek()) {
        (Some((own, _)), Some((other, _))) => Some(own.cmp(other)),
        (Some(_), None) => Some(Ordering::Less),
        (None, Some(_)) => Some(Ordering::Greater),
        (None, None) => None,
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
    fn its_tree_stays_small() {
        let mut map = SortedMap::default();
        for number in 0..10_000_u32 {
            map.insert(number.reverse_bits(), ());
        }
        assert!(map.changes.len() <= map.array.len() / PART);
        assert_eq!(map.array.capacity(), map.array.len());
    }
}
