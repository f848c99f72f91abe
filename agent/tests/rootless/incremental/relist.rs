//! Lists in which some objects are missing.

use epguard_core::facts::{Change, Part, Selection};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub fn list<K: Ord, T: Clone>(objects: &mut BTreeMap<K, T>, gone: u8) -> Change<T> {
    let mut vanished = vanish(gone);
    objects.retain(|_, _| !vanished());
    Change::Reset(objects.values().cloned().collect())
}

/// The objects that are asked for; removes those whose bit is set.
pub fn some<K: Ord, T: Clone>(
    objects: &mut BTreeMap<K, T>,
    is_asked: impl Fn(&T) -> bool,
    gone: u8,
) -> Vec<T> {
    let mut vanished = vanish(gone);
    objects.retain(|_, object| !is_asked(object) || !vanished());
    objects.values().filter(|object| is_asked(object)).cloned().collect()
}

pub fn part<T>(selection: Selection, objects: Vec<T>) -> Part<T> {
    Part { selection, sent: Duration::MAX, objects, later: BTreeSet::new() }
}

/// Whether the next object vanished.
fn vanish(gone: u8) -> impl FnMut() -> bool {
    let mut bits = gone;
    move || {
        let vanished = bits & 1 == 1;
        bits >>= 1;
        vanished
    }
}
