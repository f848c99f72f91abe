//! The desired contents of the maps.

mod alternatives;
mod generations;
mod inherited;
pub mod layout;
mod numbers;
mod owners;
pub mod restore;

use generations::Generations;
pub use inherited::Inherited;
pub use numbers::Numbers;
pub use owners::Owners;

use crate::counts::Counts;
use crate::sorted_map::SortedMap;
use crate::state::orphan_ip::OrphanIp;
use epguard_common::{Addr, Backends, Denial, DenialKey, ServiceNumber, Suspect, Vip};
use std::collections::{BTreeMap, BTreeSet};

/// Contents of the datapath's maps. They grow with staleness, never with the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// SUSPECTS.
    pub suspects: SortedMap<Addr, Suspect>,
    /// SERVICES.
    pub services: SortedMap<Vip, ServiceNumber>,
    /// DENIED.
    pub denied: SortedMap<DenialKey, Denial>,
    /// BACKENDS.
    pub backends: SortedMap<DenialKey, Backends>,
    /// TERMINATED.
    pub terminated: BTreeMap<Addr, OrphanIp>,
    /// Denials that found no room in a table, by the Service's namespace; those packets pass.
    pub refused: Counts<String>,
}

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
    pub fn between(one: &Tables, other: &Tables) -> Self {
        let mut denied = differing(&one.denied, &other.denied);
        denied.append(&mut differing(&one.backends, &other.backends));
        Self {
            suspects: differing(&one.suspects, &other.suspects),
            services: differing(&one.services, &other.services),
            denied,
        }
    }

    /// Adds other keys.
    pub fn extend(&mut self, mut other: Self) {
        self.suspects.append(&mut other.suspects);
        self.services.append(&mut other.services);
        self.denied.append(&mut other.denied);
    }
}

fn differing<K: Ord + Copy, V: PartialEq>(
    one: &SortedMap<K, V>,
    other: &SortedMap<K, V>,
) -> BTreeSet<K> {
    let lost = one
        .iter()
        .filter(|(key, value)| other.get(key) != Some(value));
    let new = other.keys().filter(|key| !one.contains_key(key));
    lost.map(|(key, _)| *key).chain(new.copied()).collect()
}
