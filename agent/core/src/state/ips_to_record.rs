//! The IPs whose history is written next: anything about them may have changed.

use super::affected::Affected;
use crate::sorted_map::SortedMap;
use epguard_common::Addr;
use std::collections::BTreeSet;

/// IPs about which anything may have changed since their history was written.
#[derive(Debug, Clone, Default)]
pub struct IpsToRecord {
    ips: SortedMap<Addr, ()>,
    /// Whether these are many, of which a part was taken.
    is_mass: bool,
}

impl IpsToRecord {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.ips.is_empty()
    }

    /// Adds IPs.
    pub fn add(&mut self, ips: impl IntoIterator<Item = Addr>) {
        self.ips.extend(ips.into_iter().map(|ip| (ip, ())));
    }

    /// Adds the IPs that a change is about. Those that it affects indirectly are added where that
    /// is found.
    pub fn add_affected(&mut self, affected: &Affected) {
        self.add(affected.all_ips());
    }

    /// Takes at most so many. True: they are some of a mass of more than `mass`, or of a list.
    pub fn take(&mut self, most: usize, mass: usize, of_list: bool) -> (BTreeSet<Addr>, bool) {
        let is_mass = self.is_mass || of_list || self.ips.len() > mass;
        self.is_mass = is_mass && self.ips.len() > most;
        (self.ips.take_first(most), is_mass)
    }
}
