//! `EndpointSlices` for whose endpoints there is no room, or that cannot be read in whole: nothing is denied of their Services, nor at their IPs.

use crate::counts::Counts;
use crate::facts::{Name, Slice};
use crate::state::index::quota::Waiting;
use epguard_common::Addr;
use std::collections::BTreeSet;

/// Pairs of address and port in one slice. A slice of 30 KB can have a million of them; the controller of Kubernetes
/// writes slices of at most 1,000 addresses.
pub(in crate::state) const OF_ONE: usize = 8_192;

/// Endpoints that all Services list, or listed recently.
pub(in crate::state) const OF_ALL: usize = 80 * OF_ONE;

/// Slices that were left out.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct LeftOut {
    pub without_room: Waiting,
    /// Those that were read only in part.
    partial: BTreeSet<Name>,
    pub services: Counts<Name>,
    pub ips: Counts<Addr>,
}

impl LeftOut {
    pub(in crate::state) fn has(&self, slice: &Name) -> bool {
        self.without_room.all.contains(slice) || self.partial.contains(slice)
    }

    /// Adds a slice of a Service; a slice without one lists nothing.
    pub(in crate::state) fn add(&mut self, slice: &Slice, service: &Name) {
        self.slices_mut(slice.partial).insert(slice.name.clone());
        self.services.add(service.clone(), 1);
        for endpoint in &slice.endpoints {
            self.ips.add(endpoint.ip, 1);
        }
    }

    /// Namespace and name of those for which there is no room, or of those that were read only in part.
    pub(in crate::state) fn slices(&self, partial: bool) -> impl Iterator<Item = &Name> {
        let slices = if partial { &self.partial } else { &self.without_room.all };
        slices.iter()
    }

    fn slices_mut(&mut self, partial: bool) -> &mut BTreeSet<Name> {
        if partial { &mut self.partial } else { &mut self.without_room.all }
    }

    /// Removes a slice; false if it was not left out.
    pub(in crate::state) fn remove(&mut self, slice: &Slice) -> bool {
        let known = self.slices_mut(slice.partial).remove(&slice.name);
        if let Some(service) = slice.service.as_ref().filter(|_| known) {
            self.services.remove(service, 1);
            for endpoint in &slice.endpoints {
                self.ips.remove(&endpoint.ip, 1);
            }
        }
        known
    }
}
