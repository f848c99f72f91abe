//! The Services to judge, the one that waits longest first. Facts only mark them, so that no fact costs more than what
//! it names, and a flood of facts about one Service costs one judgement of it at a time. And the IPs whose history is written next.

use super::dirty::Dirty;
use crate::facts::Name;
use crate::sorted_map::SortedMap;
use epguard_common::Addr;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// What of a Service has to be judged again. Its VIPs always are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The endpoints at these IPs.
    pub ips: BTreeSet<Addr>,
    /// Besides, all endpoints that may be denied.
    pub all: bool,
    /// Whether the Service has no VIPs meanwhile: what it waits for may end its denials.
    pub suspended: bool,
}

/// Services with what has to be judged again.
pub type Scopes = BTreeMap<Name, Scope>;

/// The Services that wait.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    order: VecDeque<Name>,
    scopes: HashMap<Name, Scope>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// True if the Service waits.
    pub fn waits(&self, service: &Name) -> bool {
        self.scopes.contains_key(service)
    }

    /// Adds a Service, or more of one that waits already and keeps its turn.
    pub fn push(&mut self, service: Name, mut scope: Scope) {
        if let Some(known) = self.scopes.get_mut(&service) {
            known.ips.append(&mut scope.ips);
            known.all |= scope.all;
            known.suspended |= scope.suspended;
        } else {
            self.order.push_back(service.clone());
            self.scopes.insert(service, scope);
        }
    }

    /// Takes out the first Service.
    pub fn pop(&mut self) -> Option<(Name, Scope)> {
        let service = self.order.pop_front()?;
        let scope = self.scopes.remove(&service)?;
        Some((service, scope))
    }

    /// Marks a Service that waits. True if it was not marked.
    pub fn suspend(&mut self, service: &Name) -> bool {
        let scope = self.scopes.get_mut(service);
        scope.is_some_and(|scope| !std::mem::replace(&mut scope.suspended, true))
    }

    /// True if the Service has no VIPs until it is judged.
    pub fn suspends(&self, service: &Name) -> bool {
        self.scopes.get(service).is_some_and(|scope| scope.suspended)
    }
}

/// IPs about which anything may have changed.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        ("ns".into(), text.into())
    }

    fn at(last: &[u8]) -> Scope {
        let ips = last.iter().map(|last| Addr::v4([10, 0, 0, *last])).collect();
        Scope { ips, ..Scope::default() }
    }

    #[test]
    fn a_service_that_changes_again_keeps_its_turn_and_is_judged_once() {
        let mut queue = Queue::default();
        let all = |scope| Scope { all: true, ..scope };
        for (service, scope) in [("b", at(&[1])), ("a", all(at(&[]))), ("b", at(&[3])), ("a", at(&[4]))] {
            queue.push(name(service), scope);
        }
        assert_eq!(queue.pop(), Some((name("b"), at(&[1, 3]))));
        assert_eq!(queue.pop(), Some((name("a"), all(at(&[4])))));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn only_a_service_that_waits_is_suspended_until_its_turn() {
        let mut queue = Queue::default();
        queue.push(name("a"), at(&[1]));
        assert!(queue.suspend(&name("a")) && !queue.suspend(&name("b")));
        assert!(!queue.suspend(&name("a")) && queue.suspends(&name("a")));
        let (service, scope) = queue.pop().unwrap();
        queue.push(service, scope);
        queue.push(name("a"), at(&[2]));
        assert!(queue.suspends(&name("a")), "a rest of it waits");
        queue.pop();
        assert!(!queue.waits(&name("a")) && !queue.suspends(&name("a")));
        queue.push(name("a"), at(&[1]));
        assert!(!queue.suspends(&name("a")));
    }
}
