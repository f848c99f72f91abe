//! IPs about which anything may have changed: their history is written next.

use super::dirty::Dirty;
use crate::sorted_map::SortedMap;
use epguard_common::Addr;
use std::collections::BTreeSet;

/// Such IPs.
#[derive(Debug, Clone, Default)]
pub(super) struct Touched {
    ips: SortedMap<Addr, ()>,
    /// Whether these are many, of which a part was taken.
    is_mass: bool,
}

impl Touched {
    pub(super) fn is_empty(&self) -> bool {
        self.ips.is_empty()
    }

    /// Adds IPs.
    pub(super) fn add(&mut self, ips: impl IntoIterator<Item = Addr>) {
        self.ips.extend(ips.into_iter().map(|ip| (ip, ())));
    }

    /// Adds the IPs that a change is about. Those that it affects indirectly are added where that is found.
    pub(super) fn add_changed(&mut self, dirty: &Dirty) {
        let listed = dirty.services.values().flat_map(|scope| &scope.ips);
        self.add(dirty.ips.iter().chain(listed).copied());
    }

    /// Takes at most so many, and tells whether they are some of a mass of more than `mass`, or of a list.
    pub(super) fn take(&mut self, most: usize, mass: usize, of_list: bool) -> (BTreeSet<Addr>, bool) {
        self.is_mass |= of_list || self.ips.len() > mass;
        let is_mass = self.is_mass;
        self.is_mass &= self.ips.len() > most;
        (self.ips.take_first(most), is_mass)
    }
}
