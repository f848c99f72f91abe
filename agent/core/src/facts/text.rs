//! Texts that many objects have in common (namespaces, nodes, Services), which are stored once.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A text that cannot change; its clones are the same text in memory.
pub type Text = arcstr::ArcStr;

/// The first number of texts at which unused ones are dropped.
const FIRST_SWEEP: usize = 1_024;

static TEXTS: LazyLock<Mutex<Pool>> = LazyLock::new(Mutex::default);

/// A text that other objects refer to as well.
pub fn shared(text: &str) -> Text {
    TEXTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(text)
}

/// All texts that were shared and are in use, and some that are no more.
#[derive(Debug)]
struct Pool {
    texts: HashSet<Text>,
    /// The number of texts at which unused ones are dropped.
    sweep_at: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            texts: HashSet::new(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl Pool {
    fn get(&mut self, text: &str) -> Text {
        if let Some(text) = self.texts.get(text) {
            return text.clone();
        }
        if self.texts.len() >= self.sweep_at {
            self.texts
                .retain(|text| Text::strong_count(text) != Some(1));
            self.sweep_at = FIRST_SWEEP.max(2 * self.texts.len());
        }
        let text = Text::from(text);
        self.texts.insert(text.clone());
        text
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

    #[test]
    fn texts_without_references_are_dropped_and_others_stay() {
        let mut pool = Pool::default();
        let used = pool.get("used");
        for number in 0..10 * FIRST_SWEEP {
            pool.get(&number.to_string());
        }
        assert!(pool.texts.len() <= FIRST_SWEEP);
        assert!(
            Text::ptr_eq(&used, &pool.get("used")),
            "a text is stored once"
        );
        assert!(!Text::ptr_eq(&used, &pool.get("web")));
    }
}
