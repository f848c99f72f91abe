//! Values that many objects have in common, each stored once: namespaces, nodes, Services, sets of labels.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A text that cannot change; its clones are the same text in memory.
pub type Text = arcstr::ArcStr;

/// The first number of values at which unused ones are dropped.
const FIRST_SWEEP: usize = 1_024;

static TEXTS: LazyLock<Pool<Text>> = LazyLock::new(Pool::default);
static HASHES: LazyLock<Pool<Arc<[u64]>>> = LazyLock::new(Pool::default);

/// A text that other objects refer to as well.
#[must_use]
pub fn shared(text: &str) -> Text {
    TEXTS.get(text)
}

/// Hashes that other objects have as well.
pub(super) fn shared_hashes(hashes: &[u64]) -> Arc<[u64]> {
    HASHES.get(hashes)
}

/// All values of a type that were shared and are in use, and some that are no more.
#[derive(Debug)]
struct Pool<T>(Mutex<Known<T>>);

#[derive(Debug)]
struct Known<T> {
    values: HashSet<T>,
    /// The number of values at which to drop those that nothing else refers to.
    sweep_at: usize,
}

/// A value with a count of its references.
trait Counted {
    fn is_unused(&self) -> bool;
}

impl Counted for Text {
    fn is_unused(&self) -> bool {
        Self::strong_count(self) == Some(1)
    }
}

impl Counted for Arc<[u64]> {
    fn is_unused(&self) -> bool {
        Self::strong_count(self) == 1
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::new(Known { values: HashSet::new(), sweep_at: FIRST_SWEEP }))
    }
}

impl<T: Counted + Clone + Eq + Hash> Pool<T> {
    fn get<Q: Eq + Hash + ?Sized>(&self, value: &Q) -> T
    where
        T: Borrow<Q> + for<'a> From<&'a Q>,
    {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known.values.get(value) {
            return value.clone();
        }
        if known.values.len() >= known.sweep_at {
            known.values.retain(|value| !value.is_unused());
            known.sweep_at = FIRST_SWEEP.max(2 * known.values.len());
        }
        let value = T::from(value);
        known.values.insert(value.clone());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_stored_once() {
        let pool = Pool::<Text>::default();
        let (one, other) = (pool.get("shop"), pool.get("shop"));
        assert!(Text::ptr_eq(&one, &other));
        assert!(!Text::ptr_eq(&one, &pool.get("web")));
    }

    #[test]
    fn values_without_references_are_dropped_and_others_stay() {
        let pool = Pool::<Text>::default();
        let used = pool.get("used");
        for number in 0..10 * FIRST_SWEEP {
            pool.get(number.to_string().as_str());
        }
        assert!(pool.0.lock().unwrap().values.len() <= FIRST_SWEEP);
        assert!(Text::ptr_eq(&used, &pool.get("used")));
    }
}
