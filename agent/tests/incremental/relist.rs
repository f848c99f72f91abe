//! Lists in which some objects are missing.

use epguard_core::facts::Change;
use std::collections::BTreeMap;

pub fn list<K: Ord, T: Clone>(objects: &mut BTreeMap<K, T>, gone: u8) -> Change<T> {
    let mut vanished = vanish(gone);
    objects.retain(|_, _| !vanished());
    Change::Reset(objects.values().cloned().collect())
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
