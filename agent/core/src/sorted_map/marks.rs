//! Marks on the entries of an array, 64 to a word, so that a long run of them is skipped quickly.

/// The entries with a mark, by their places.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    words: Vec<u64>,
    count: usize,
}

const BITS: usize = u64::BITS as usize;

impl Marks {
    /// How many entries have a mark.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// True if the entry has a mark.
    pub fn has(&self, at: usize) -> bool {
        self.words
            .get(at / BITS)
            .is_some_and(|word| word & bit(at) != 0)
    }

    /// Marks an entry. True if it had no mark.
    pub fn set(&mut self, at: usize) -> bool {
        if self.words.len() <= at / BITS {
            self.words.resize(at / BITS + 1, 0);
        }
        let is_new = !self.has(at);
        self.words[at / BITS] |= bit(at);
        self.count += usize::from(is_new);
        is_new
    }

    /// Takes away the mark of an entry. True if it had one.
    pub fn clear(&mut self, at: usize) -> bool {
        let had_one = self.has(at);
        if had_one {
            self.words[at / BITS] &= !bit(at);
            self.count -= 1;
        }
        had_one
    }

    /// The place of the first entry without a mark, from this one on.
    pub fn next_without(&self, at: usize) -> usize {
        let Some(word) = self.words.get(at / BITS) else {
            return at;
        };
        let first = (word >> (at % BITS)).trailing_ones() as usize;
        if at % BITS + first < BITS {
            return at + first;
        }
        let next = at / BITS + 1;
        let full = self.words[next..]
            .iter()
            .take_while(|word| **word == u64::MAX)
            .count();
        let rest = self
            .words
            .get(next + full)
            .map_or(0, |word| word.trailing_ones() as usize);
        (next + full) * BITS + rest
    }
}

const fn bit(at: usize) -> u64 {
    1 << (at % BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_next_entry_without_a_mark_is_found_beyond_runs_of_any_length(
            runs in prop::collection::vec((0..400_usize, 0..200_usize, any::<bool>()), 0..6),
            from in 0..700_usize,
        ) {
            let (mut marks, mut model) = (Marks::default(), BTreeSet::new());
            for at in runs.iter().flat_map(|(first, length, _)| *first..first + length) {
                prop_assert_eq!(marks.set(at), model.insert(at));
            }
            for (at, ..) in runs.iter().filter(|(.., clears)| *clears) {
                prop_assert_eq!(marks.clear(*at), model.remove(at));
            }
            prop_assert_eq!(marks.count(), model.len());
            prop_assert_eq!(marks.has(from), model.contains(&from));
            let next = (from..=from + model.len()).find(|at| !model.contains(at));
            prop_assert_eq!(Some(marks.next_without(from)), next);
        }
    }
}
