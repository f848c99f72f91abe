//! The keys of tables that may have changed, so that a change costs nothing that grows with the tables.

use super::Tables;
use crate::sorted_map::SortedMap;
use epguard_common::{Addr, DenialKey, Vip};
use std::collections::BTreeSet;

/// Keys whose entries may differ between two tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of SUSPECTS.
    pub suspects: BTreeSet<Addr>,
    /// Of SERVICES.
    pub services: BTreeSet<Vip>,
    /// Of DENIED and BACKENDS.
    pub denied: BTreeSet<DenialKey>,
}

impl Changes {
    /// The keys whose entries differ.
    #[must_use]
    pub fn between(one: &Tables, other: &Tables) -> Self {
        let mut changes = Self::default();
        changes.add(one, other);
        changes
    }

    /// Adds the keys whose entries differ.
    pub fn add(&mut self, one: &Tables, other: &Tables) {
        self.suspects.extend(differing(&one.suspects, &other.suspects));
        self.services.extend(differing(&one.services, &other.services));
        self.denied.extend(differing(&one.denied, &other.denied));
        self.denied.extend(differing(&one.backends, &other.backends));
    }

    /// Adds other keys.
    pub fn extend(&mut self, mut other: Self) {
        self.suspects.append(&mut other.suspects);
        self.services.append(&mut other.services);
        self.denied.append(&mut other.denied);
    }
}

fn differing<K: Ord + Copy, V: PartialEq>(one: &SortedMap<K, V>, other: &SortedMap<K, V>) -> Vec<K> {
    let lost = one.iter().filter(|(key, value)| other.get(key) != Some(value));
    let new = other.keys().filter(|key| !one.contains_key(key));
    lost.map(|(key, _)| *key).chain(new.copied()).collect()
}
