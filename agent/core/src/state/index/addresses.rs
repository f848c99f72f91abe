//! Addresses that something else than a pod has, or had until a moment ago.

use super::former::Former;
use crate::counts::{Counts, uncount};
use epguard_common::Addr;
use std::time::Duration;

/// The addresses of all Nodes, or of all Services.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// How many objects show each.
    shown: Counts<Addr>,
    /// Those that no object shows any more. Packets to them go on for a while.
    left: Former<Addr>,
}

impl Addresses {
    /// True if an object shows the address, or did within [`MEMORY`](super::former::MEMORY).
    pub fn contains(&self, addr: Addr) -> bool {
        self.shown.contains_key(&addr) || self.left.contains(&addr)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Addr> {
        self.shown.keys().chain(self.left.counts.keys()).copied()
    }

    pub fn add(&mut self, addrs: &[Addr]) {
        for addr in addrs {
            *self.shown.entry(*addr).or_default() += 1;
        }
    }

    /// Takes away what an object of an owner showed that was added. The owner is a namespace, or a
    /// Node.
    pub fn remove(&mut self, now: Duration, owner: &str, addrs: &[Addr]) {
        for addr in addrs {
            if uncount(&mut self.shown, addr, 1) {
                self.left.add(now, owner, *addr);
            }
        }
    }

    /// Forgets addresses that are gone for a while; returns those that a pod may have now.
    pub fn forget(&mut self, now: Duration) -> Vec<Addr> {
        let mut old = self.left.forget(now);
        old.retain(|addr| !self.shown.contains_key(addr));
        old
    }

    /// Forgets what objects show, but not that they did.
    pub fn start_over(&mut self, now: Duration) {
        self.left
            .add_all(now, std::mem::take(&mut self.shown).into_keys());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_counts_until_ten_minutes_after_its_last_object_is_gone() {
        let [x, y] = [1, 2].map(|last| Addr::v4([192, 0, 2, last]));
        let at = Duration::from_mins;
        let mut addresses = Addresses::default();
        addresses.add(&[x, y]);
        addresses.add(&[x]);
        addresses.remove(at(1), "shop", &[x, y]);
        assert!(addresses.contains(x) && addresses.contains(y));
        assert_eq!(addresses.forget(at(10)), []);
        assert_eq!(addresses.forget(at(11)), [y]);
        assert!(addresses.contains(x) && !addresses.contains(y));
        addresses.start_over(at(12));
        addresses.add(&[x]);
        assert_eq!(addresses.forget(at(30)), [], "it is shown again");
        assert!(addresses.contains(x));
    }
}
