//! The pod that owns each IP, as OWNERS should show it.

use crate::sorted_map::SortedMap;
use epguard_common::{Addr, Owner};

/// All owners, and how many of them have a flag.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Owners {
    all: SortedMap<Addr, Owner>,
    draining: usize,
    conflicts: usize,
}

impl Owners {
    /// All owners, by IP.
    pub(in crate::state) const fn all(&self) -> &SortedMap<Addr, Owner> {
        &self.all
    }

    /// The owner of an IP.
    pub(in crate::state) fn get(&self, ip: &Addr) -> Option<&Owner> {
        self.all.get(ip)
    }

    /// How many owners are terminating.
    pub(in crate::state) const fn draining(&self) -> usize {
        self.draining
    }

    /// How many IPs have several live owners, of which one is shown.
    pub(in crate::state) const fn conflicts(&self) -> usize {
        self.conflicts
    }

    /// Stores the owner of an IP; removes it with `None`.
    pub(in crate::state) fn set(&mut self, ip: Addr, owner: Option<Owner>) {
        let has =
            |owner: Option<&Owner>, flag| usize::from(owner.is_some_and(|owner| owner.flags & flag != 0));
        let before = self.all.get(&ip);
        self.draining -= has(before, Owner::DRAINING);
        self.conflicts -= has(before, Owner::CONFLICT);
        self.draining += has(owner.as_ref(), Owner::DRAINING);
        self.conflicts += has(owner.as_ref(), Owner::CONFLICT);
        match owner {
            Some(owner) => {
                self.all.insert(ip, owner);
            }
            None => {
                self.all.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_counted_while_an_owner_has_them() {
        let ip = Addr::v4([10, 0, 0, 1]);
        let flagged = |flags| {
            let owner = Owner::default();
            Some(Owner { flags, ..owner })
        };
        let mut owners = Owners::default();
        let mut set = |owner| {
            owners.set(ip, owner);
            (owners.all().len(), owners.draining(), owners.conflicts())
        };
        assert_eq!(set(flagged(Owner::DRAINING)), (1, 1, 0));
        assert_eq!(set(flagged(Owner::DRAINING | Owner::CONFLICT)), (1, 1, 1));
        assert_eq!(set(flagged(Owner::CONFLICT)), (1, 0, 1));
        assert_eq!(set(None), (0, 0, 0));
        assert_eq!(set(None), (0, 0, 0));
    }
}
