//! One write to a map.

use crate::sorted_map::SortedMap;
use crate::state::{Changes, OrphanIp, Tables};
use epguard_common::{Addr, Backends, Denial, DenialKey, Owner, ServiceNumber, Suspect, Vip};

/// What a key of a map gets; none: its entry is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the maps")]
pub enum Op {
    Denial(DenialKey, Option<Denial>),
    Backends(DenialKey, Option<Box<Backends>>),
    Service(Vip, Option<ServiceNumber>),
    Suspect(Addr, Option<Suspect>),
    Terminated(Addr, Option<OrphanIp>),
    Owner(Addr, Option<Owner>),
}

impl Op {
    /// The write that takes out what this one puts in; none for a removal.
    #[must_use]
    pub const fn removal(&self) -> Option<Self> {
        Some(match self {
            Self::Denial(key, Some(_)) => Self::Denial(*key, None),
            Self::Backends(key, Some(_)) => Self::Backends(*key, None),
            Self::Service(key, Some(_)) => Self::Service(*key, None),
            Self::Suspect(key, Some(_)) => Self::Suspect(*key, None),
            Self::Terminated(key, Some(_)) => Self::Terminated(*key, None),
            Self::Owner(key, Some(_)) => Self::Owner(*key, None),
            _ => return None,
        })
    }

    /// Applies the write to the tables that are known to be installed. True if the key had an entry there.
    pub fn apply(&self, installed: &mut Tables) -> bool {
        match self {
            Self::Denial(key, value) => put(&mut installed.denied, *key, *value),
            Self::Backends(key, value) => put(&mut installed.backends, *key, value.as_deref().copied()),
            Self::Service(key, value) => put(&mut installed.services, *key, *value),
            Self::Suspect(key, value) => put(&mut installed.suspects, *key, *value),
            Self::Terminated(key, Some(value)) => installed.terminated.insert(*key, *value).is_some(),
            Self::Terminated(key, None) => installed.terminated.remove(key).is_some(),
            Self::Owner(..) => false,
        }
    }

    /// Adds its key to those that may have changed.
    pub fn note(&self, changes: &mut Changes) {
        match self {
            Self::Denial(key, _) | Self::Backends(key, _) => drop(changes.denied.insert(*key)),
            Self::Service(key, _) => drop(changes.services.insert(*key)),
            Self::Suspect(key, _) => drop(changes.suspects.insert(*key)),
            Self::Owner(..) | Self::Terminated(..) => {}
        }
    }
}

fn put<K: Ord + Clone, V>(table: &mut SortedMap<K, V>, key: K, value: Option<V>) -> bool {
    match value {
        Some(value) => table.insert(key, value).is_some(),
        None => table.remove(&key),
    }
}
