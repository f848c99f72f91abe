//! What each interface is to the node, as INTERFACES says to the programs.

use super::{Interface, Role, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// The interfaces that are there. Whoever carries a default route leads out of the node, whatever it is: where nodes
/// are containers themselves, their uplinks are veths.
#[derive(Debug, Default)]
pub struct Roles {
    selection: Selection,
    interfaces: BTreeMap<u32, Kind>,
    defaults: BTreeSet<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hooked(Role),
    Bridge,
}

impl Roles {
    /// None yet.
    #[must_use]
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            ..Self::default()
        }
    }

    /// Takes in an interface; its role if it is to be hooked.
    pub fn add(&mut self, interface: &Interface) -> Option<Role> {
        let kind = match self.selection.role(interface) {
            Some(role) => Some(Kind::Hooked(role)),
            None => (interface.kind == "bridge").then_some(Kind::Bridge),
        };
        match kind {
            Some(kind) => self.interfaces.insert(interface.ifindex, kind),
            None => self.interfaces.remove(&interface.ifindex),
        };
        self.role(interface.ifindex)
    }

    /// Forgets an interface.
    pub fn remove(&mut self, ifindex: u32) {
        self.interfaces.remove(&ifindex);
    }

    /// Takes in which interfaces default routes lead through; those whose role that may change.
    pub fn set_defaults(&mut self, defaults: BTreeSet<u32>) -> Vec<u32> {
        let changed = self.defaults.symmetric_difference(&defaults).copied().collect();
        self.defaults = defaults;
        changed
    }

    /// The role of a hooked interface.
    #[must_use]
    pub fn role(&self, ifindex: u32) -> Option<Role> {
        match self.interfaces.get(&ifindex)? {
            Kind::Hooked(Role::Pod) if self.defaults.contains(&ifindex) => Some(Role::Uplink),
            Kind::Hooked(role) => Some(*role),
            Kind::Bridge => None,
        }
    }

    /// As INTERFACES holds it.
    #[must_use]
    pub fn number(&self, ifindex: u32) -> Option<epguard_common::Role> {
        match (self.role(ifindex), self.interfaces.get(&ifindex)) {
            (Some(Role::Pod), _) => Some(epguard_common::Role::POD),
            (Some(Role::Uplink), _) => Some(epguard_common::Role::UPLINK),
            (Some(Role::Tunnel), _) => Some(epguard_common::Role::TUNNEL),
            (None, Some(Kind::Bridge)) => Some(epguard_common::Role::BRIDGE),
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(ifindex: u32, kind: &str) -> Interface {
        Interface {
            ifindex,
            name: format!("if{ifindex}"),
            kind: kind.into(),
            ..Interface::default()
        }
    }

    #[test]
    fn a_veth_that_carries_the_default_route_is_an_uplink_as_long_as_it_does() {
        let mut roles = Roles::default();
        assert_eq!(roles.add(&interface(2, "veth")), Some(Role::Pod));
        assert_eq!(roles.set_defaults(BTreeSet::from([2])), [2]);
        assert_eq!(roles.number(2), Some(epguard_common::Role::UPLINK));
        assert_eq!(roles.set_defaults(BTreeSet::new()), [2]);
        assert_eq!(roles.number(2), Some(epguard_common::Role::POD));
    }

    #[test]
    fn a_bridge_is_known_but_not_hooked() {
        let mut roles = Roles::default();
        assert_eq!(roles.add(&interface(3, "bridge")), None);
        assert_eq!(roles.number(3), Some(epguard_common::Role::BRIDGE));
        roles.remove(3);
        assert_eq!(roles.number(3), None);
    }
}
