//! Texts and sets of labels that many objects have in common (namespaces, nodes, Services), which
//! are stored once.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A text that cannot change; its clones are the same text in memory.
pub type Text = arcstr::ArcStr;

/// The first number of values at which unused ones are dropped.
const FIRST_SWEEP: usize = 1_024;

static TEXTS: Shared<Text> =
    LazyLock::new(|| Pool::new(|text| Text::strong_count(text) == Some(1)));
static HASHES: Shared<Arc<[u64]>> =
    LazyLock::new(|| Pool::new(|hashes| Arc::strong_count(hashes) == 1));

/// A text that other objects refer to as well.
pub fn shared(text: &str) -> Text {
    TEXTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(text)
}

/// Hashes that other objects have as well.
pub(super) fn shared_hashes(hashes: &[u64]) -> Arc<[u64]> {
    HASHES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(hashes)
}

type Shared<T> = LazyLock<Mutex<Pool<T>>>;

/// All values of a type that were shared and are in use, and some that are no more.
#[derive(Debug)]
struct Pool<T> {
    /// True if nothing else refers to the value.
    is_unused: fn(&T) -> bool,
    values: HashSet<T>,
    /// The number of values at which unused ones are dropped.
    sweep_at: usize,
}

impl<T: Clone + Eq + Hash> Pool<T> {
    fn new(is_unused: fn(&T) -> bool) -> Mutex<Self> {
        Mutex::new(Self {
            is_unused,
            values: HashSet::new(),
            sweep_at: FIRST_SWEEP,
        })
    }

    fn get<Q: Eq + Hash + ?Sized>(&mut self, value: &Q) -> T
    where
        T: Borrow<Q> + for<'a> From<&'a Q>,
    {
        if let Some(value) = self.values.get(value) {
            return value.clone();
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| !(self.is_unused)(value));
            self.sweep_at = FIRST_SWEEP.max(2 * self.values.len());
        }
        let value = T::from(value);
        self.values.insert(value.clone());
        value
    }
}

/// A hash that stands for a value of which there are many.
pub(super) fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Pool<Text> {
        Pool::new(|text| Text::strong_count(text) == Some(1))
            .into_inner()
            .unwrap()
    }

    #[test]
    fn values_without_references_are_dropped_and_others_stay() {
        let mut pool = texts();
        let used = pool.get("used");
        for number in 0..10 * FIRST_SWEEP {
            pool.get(number.to_string().as_str());
        }
        assert!(pool.values.len() <= FIRST_SWEEP);
        assert!(
            Text::ptr_eq(&used, &pool.get("used")),
            "a value is stored once"
        );
        assert!(!Text::ptr_eq(&used, &pool.get("web")));
    }
}
