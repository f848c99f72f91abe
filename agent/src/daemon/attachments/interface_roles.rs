//! The interfaces, as INTERFACES holds them.

use super::Attachments;
use epguard_common::Interface;
use std::collections::BTreeMap;

impl Attachments {
    /// Changes to write into INTERFACES since the last call. An interface without our hooks has no role, because it
    /// proves nothing.
    pub fn take_interfaces(&mut self) -> Vec<(u32, Option<Interface>)> {
        let is_open = |ifindex| self.interfaces.get(&ifindex).is_some_and(|at| !at.attached);
        let wanted: BTreeMap<u32, Interface> = self
            .roles
            .entries()
            .filter(|(ifindex, _)| !self.lost && !is_open(*ifindex))
            .collect();
        let gone = self.told.keys().filter(|ifindex| !wanted.contains_key(ifindex));
        let mut changes: Vec<_> = gone.map(|ifindex| (*ifindex, None)).collect();
        let new = wanted
            .iter()
            .filter(|(ifindex, entry)| self.told.get(ifindex) != Some(entry));
        changes.extend(new.map(|(ifindex, entry)| (*ifindex, Some(*entry))));
        self.told = wanted;
        changes
    }

    /// Whether INTERFACES holds an interface.
    #[must_use]
    pub fn is_known(&self, ifindex: u32) -> bool {
        self.told.contains_key(&ifindex)
    }
}
