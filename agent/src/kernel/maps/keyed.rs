//! Hash maps whose values carry their keys.

use super::refusal::accept_absent;
use aya::Pod;
use aya::maps::{HashMap, Map, MapData, MapError};
use epguard_common::Keyed;

/// A hash map whose values carry their keys; [`Keyed`] gives the reason.
pub struct KeyedMap<K, V>(HashMap<MapData, K, Keyed<K, V>>)
where
    K: Pod + PartialEq,
    Keyed<K, V>: Pod;

impl<K, V> TryFrom<Map> for KeyedMap<K, V>
where
    K: Pod + PartialEq,
    Keyed<K, V>: Pod,
{
    type Error = MapError;

    fn try_from(map: Map) -> Result<Self, MapError> {
        map.try_into().map(Self)
    }
}

impl<K, V> KeyedMap<K, V>
where
    K: Pod + PartialEq,
    Keyed<K, V>: Pod,
{
    /// The value of a key.
    pub fn get(&self, key: &K) -> Result<V, MapError> {
        self.0
            .get(key, 0)?
            .value_of(key)
            .ok_or(MapError::KeyNotFound)
    }

    pub(super) fn insert(
        &mut self,
        key: K,
        value: impl Into<V>,
        flags: u64,
    ) -> Result<(), MapError> {
        let value = value.into();
        self.0.insert(key, Keyed { key, value }, flags)
    }

    /// Adds or replaces the entry of a key; removes it with `None`.
    pub(super) fn put(&mut self, key: K, value: Option<V>) -> Result<(), MapError> {
        match value {
            Some(value) => self.insert(key, value, 0),
            None => accept_absent(self.remove(&key)),
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Result<(), MapError> {
        self.0.remove(key)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = Result<K, MapError>> {
        self.0.keys()
    }

    /// All entries; a value that belongs to another key is left out. If the kernel adds and removes
    /// entries meanwhile, the list may begin anew.
    pub(super) fn iter(&self) -> impl Iterator<Item = Result<(K, V), MapError>> {
        self.0.iter().filter_map(|entry| match entry {
            Ok((key, entry)) => entry.value_of(&key).map(|value| Ok((key, value))),
            Err(error) => Some(Err(error)),
        })
    }

    /// All entries, at once.
    pub fn entries(&self) -> Result<Vec<(K, V)>, MapError> {
        self.iter().collect()
    }
}
