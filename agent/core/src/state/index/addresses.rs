//! Addresses that something else than a pod has, or had until a moment ago.

use super::endpoints::MEMORY;
use crate::counts::{Counts, uncount};
use epguard_common::Addr;
use std::collections::BTreeMap;
use std::time::Duration;

/// The addresses of all Nodes, or of all Services.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// How many objects show each.
    shown: Counts<Addr>,
    /// When the last object that showed it went. Packets to it go on for a while.
    left: BTreeMap<Addr, Duration>,
}

impl Addresses {
    /// True if an object shows the address, or did within [`MEMORY`].
    pub fn contains(&self, addr: Addr) -> bool {
        self.shown.contains_key(&addr) || self.left.contains_key(&addr)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Addr> {
        self.shown.keys().chain(self.left.keys()).copied()
    }

    pub fn add(&mut self, addrs: &[Addr]) {
        for addr in addrs {
            *self.shown.entry(*addr).or_default() += 1;
        }
    }

    /// Takes away what an object showed that was added.
    pub fn remove(&mut self, now: Duration, addrs: &[Addr]) {
        for addr in addrs {
            if uncount(&mut self.shown, addr, 1) {
                self.left.insert(*addr, now);
            }
        }
    }

    /// Forgets addresses that are gone for [`MEMORY`]; returns those that a pod may have now.
    pub fn forget(&mut self, now: Duration) -> Vec<Addr> {
        let is_old = |_: &Addr, left: &mut Duration| now.saturating_sub(*left) >= MEMORY;
        let mut old: Vec<Addr> = self.left.extract_if(.., is_old).map(|(addr, _)| addr).collect();
        old.retain(|addr| !self.shown.contains_key(addr));
        old
    }

    /// Forgets what objects show, but not that they did.
    pub fn start_over(&mut self, now: Duration) {
        let shown = std::mem::take(&mut self.shown);
        self.left.extend(shown.into_keys().map(|addr| (addr, now)));
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
        addresses.remove(at(1), &[x, y]);
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
