//! Addresses that something else than a pod has, or had until a moment ago.

use super::endpoints::MEMORY;
use crate::counts::{Counts, uncount};
use crate::facts::{Text, shared};
use epguard_common::Addr;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Addresses that left an owner's objects and are still counted; the oldest ones go first. An owner that changes them all the time takes
/// no more memory.
const LEFT: usize = 4_096;

/// The addresses of all Nodes, or of all Services.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// How many objects show each.
    shown: Counts<Addr>,
    /// How many entries of `gone` have each. Packets to it go on for a while.
    left: Counts<Addr>,
    /// The addresses that left the objects of each owner, and when: the first one first.
    gone: BTreeMap<Text, VecDeque<(Addr, Duration)>>,
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

    /// Takes away what an object of an owner showed that was added. The owner is a namespace, or a Node.
    pub fn remove(&mut self, now: Duration, owner: &str, addrs: &[Addr]) {
        for addr in addrs {
            if uncount(&mut self.shown, addr, 1) {
                self.leave(now, owner, *addr);
            }
        }
    }

    /// Forgets addresses that are gone for [`MEMORY`]; returns those that a pod may have now.
    pub fn forget(&mut self, now: Duration) -> Vec<Addr> {
        let mut old = Vec::new();
        for gone in self.gone.values_mut() {
            while let Some((addr, at)) = gone.front()
                && now.saturating_sub(*at) >= MEMORY
            {
                if uncount(&mut self.left, addr, 1) && !self.shown.contains_key(addr) {
                    old.push(*addr);
                }
                gone.pop_front();
            }
        }
        self.gone.retain(|_, gone| !gone.is_empty());
        old
    }

    /// Forgets what objects show, but not that they did.
    pub fn start_over(&mut self, now: Duration) {
        for addr in std::mem::take(&mut self.shown).into_keys() {
            *self.left.entry(addr).or_default() += 1;
            self.gone.entry(Text::default()).or_default().push_back((addr, now));
        }
    }

    fn leave(&mut self, now: Duration, owner: &str, addr: Addr) {
        let gone = self.gone.entry(shared(owner)).or_default();
        gone.push_back((addr, now));
        *self.left.entry(addr).or_default() += 1;
        if gone.len() > LEFT
            && let Some((oldest, _)) = gone.pop_front()
        {
            uncount(&mut self.left, &oldest, 1);
        }
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

    #[test]
    fn an_owner_that_changes_its_addresses_all_the_time_keeps_the_last_ones_and_those_of_others_stay() {
        let ip = |number: usize| Addr::v4(u32::try_from(number).unwrap().to_be_bytes());
        let [shop, flood] = [1, 2].map(|first| move |number: usize| ip((first << 24) + number));
        let mut addresses = Addresses::default();
        addresses.add(&[shop(0)]);
        addresses.remove(Duration::ZERO, "shop", &[shop(0)]);
        for number in 0..3 * LEFT {
            addresses.add(&[flood(number)]);
            addresses.remove(Duration::ZERO, "flood", &[flood(number)]);
        }
        assert_eq!((addresses.left.len(), addresses.gone["flood"].len()), (LEFT + 1, LEFT));
        assert!(addresses.contains(shop(0)) && addresses.contains(flood(3 * LEFT - 1)));
        assert!(!addresses.contains(flood(0)));
        addresses.forget(MEMORY);
        assert_eq!((addresses.left.len(), addresses.gone.len()), (0, 0));
    }
}
