//! The roles of interfaces, as INTERFACES holds them.

use super::Attachments;
use epguard_common::Role;
use std::collections::BTreeMap;

impl Attachments {
    /// Changes to write into INTERFACES. An interface without our hooks has no role, because it proves nothing.
    #[must_use]
    pub fn changed_roles(&self) -> Vec<(u32, Option<Role>)> {
        let attached = |ifindex| self.interfaces.get(&ifindex).map(|at| at.attached);
        let numbers = self.roles.numbers(|ifindex| attached(ifindex) == Some(true));
        let wanted: BTreeMap<u32, Role> =
            numbers.filter(|(ifindex, _)| !self.lost && attached(*ifindex) != Some(false)).collect();
        let gone = self.written.keys().filter(|ifindex| !wanted.contains_key(ifindex));
        let mut changes: Vec<_> = gone.map(|ifindex| (*ifindex, None)).collect();
        let new = wanted.iter().filter(|(ifindex, role)| self.written.get(ifindex) != Some(role));
        changes.extend(new.map(|(ifindex, role)| (*ifindex, Some(*role))));
        changes
    }

    /// Takes note of what INTERFACES holds for an interface now.
    pub fn note_role(&mut self, ifindex: u32, role: Option<Role>) {
        match role {
            Some(role) => self.written.insert(ifindex, role),
            None => self.written.remove(&ifindex),
        };
    }

    /// The role that INTERFACES holds for an interface.
    #[must_use]
    pub fn known_role(&self, ifindex: u32) -> Option<Role> {
        self.written.get(&ifindex).copied()
    }
}
