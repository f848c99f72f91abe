//! The Services to judge. Facts only mark them, so that no fact costs more than what it names, and
//! a flood of facts about one Service costs one judgement of it at a time. Namespaces take turns,
//! and so do the Services of each: no namespace makes another one wait for longer than a piece.
//!
//! What may end a denial suspends the Service until it is judged, and nothing else does: a pod that
//! starts ends no denial at an IP that a stranger shows, and none at an IP where another one has
//! ended it already.

use super::breaker::ReceivedList;
use super::denials::Denials;
use crate::facts::{ObjectName, Text};
use epguard_common::Addr;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound::{self, Excluded, Unbounded};

/// How much is judged at once.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// About so many endpoints, and VIPs.
    pub endpoints: usize,
}

impl Default for Piece {
    fn default() -> Self {
        // Two milliseconds' worth.
        Self { endpoints: 128 }
    }
}

/// What of a Service has to be judged again. Whose its VIPs are is always found out anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The endpoints at these IPs, whose denials may end.
    pub ips: BTreeSet<Addr>,
    /// Those at these IPs, where denials may only begin.
    others: BTreeSet<Addr>,
    /// Besides, all endpoints that may be denied.
    pub all: bool,
    /// Which of their denials may end.
    pub ends: Ends,
    /// True if its VIPs may be another Service's now: it has none until it is judged.
    pub vips: bool,
    /// The lists on which it is judged.
    pub lists: Vec<ReceivedList>,
    /// The IP that was judged last: its turn goes on behind that.
    last: Option<Addr>,
    /// True once the last IP was judged, even if others have been marked meanwhile.
    pub is_through: bool,
}

/// Which denials of a Service may end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ends {
    /// None.
    #[default]
    None,
    /// Those that a pod ends when it starts.
    ByStarts,
    /// All.
    All,
}

/// Services with what has to be judged again.
pub type Scopes = BTreeMap<ObjectName, Scope>;

impl Scope {
    /// All endpoints that may be denied, on a list that has come.
    pub fn on(list: ReceivedList) -> Self {
        Self {
            all: true,
            lists: vec![list],
            ..Self::default()
        }
    }

    /// Takes the next IP to judge. After the last one the first follows: no IP waits for those that
    /// are marked again and again.
    pub fn take_next(&mut self) -> Option<Addr> {
        let next = self.next_from(self.last.map_or(Unbounded, Excluded));
        self.is_through |= next.is_none();
        let next = match next {
            Some(next) => next,
            None => self.next_from(Unbounded)?,
        };
        self.ips.remove(&next);
        self.others.remove(&next);
        self.last = Some(next);
        Some(next)
    }

    fn next_from(&self, first: Bound<Addr>) -> Option<Addr> {
        let of_ips = self.ips.range((first, Unbounded)).next();
        let of_others = self.others.range((first, Unbounded)).next();
        of_ips.into_iter().chain(of_others).min().copied()
    }

    /// Names all IPs that are marked, as the denials of the Service are now.
    pub fn expand(
        &mut self,
        denials: &Denials,
        service: &ObjectName,
        stale: impl Iterator<Item = Addr>,
    ) {
        // They are ascending: a set of its own is built and merged as fast as they are read.
        if self.all {
            self.all = false;
            self.others
                .append(&mut denials.ips_of(service).chain(stale).collect());
        }
        match self.ends {
            Ends::None => {}
            Ends::ByStarts => self
                .ips
                .append(&mut denials.ips_ended_by_starts(service).collect()),
            Ends::All => self.ips.append(&mut denials.ips_of(service).collect()),
        }
        self.ends = Ends::None;
        self.vips = false;
    }

    /// True if nothing is left to judge.
    pub fn is_done(&self) -> bool {
        self.ips.is_empty() && self.others.is_empty()
    }

    /// True if what is marked may end a denial. The Service has no VIPs until it is judged.
    fn may_end(&self) -> bool {
        self.vips || self.ends != Ends::None || !self.ips.is_empty()
    }

    /// Adds what a fact or a list marks further. A fact changes what the known lists have shown, so
    /// these agree with no denial any more. On a list everything is judged from the first IP on.
    fn join(&mut self, mut other: Self) {
        if other.lists.is_empty() {
            self.lists.iter_mut().for_each(ReceivedList::outdate);
            self.lists.sort_by_key(|list| list.kind);
            self.lists.dedup();
        } else {
            self.last = None;
            self.is_through = false;
        }
        self.ips.append(&mut other.ips);
        self.others.append(&mut other.others);
        self.all |= other.all;
        self.ends = self.ends.max(other.ends);
        self.vips |= other.vips;
        self.lists.append(&mut other.lists);
    }
}

/// The Services that wait.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// The namespaces of these Services, the next first.
    namespaces: VecDeque<Text>,
    /// The Services of each, the next first.
    of_namespaces: HashMap<Text, VecDeque<ObjectName>>,
    scopes: HashMap<ObjectName, Scope>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    /// True if the Service waits.
    pub fn waits(&self, service: &ObjectName) -> bool {
        self.scopes.contains_key(service)
    }

    /// Adds a Service, or more of one that waits already and keeps its turn.
    pub fn push(&mut self, service: ObjectName, scope: Scope) {
        if let Some(known) = self.scopes.get_mut(&service) {
            known.join(scope);
            return;
        }
        let of_namespace = self
            .of_namespaces
            .entry(service.namespace.clone())
            .or_default();
        if of_namespace.is_empty() {
            self.namespaces.push_back(service.namespace.clone());
        }
        of_namespace.push_back(service.clone());
        self.scopes.insert(service, scope);
    }

    /// Takes out the next Service of the namespace whose turn it is.
    pub fn pop(&mut self) -> Option<(ObjectName, Scope)> {
        let namespace = self.namespaces.pop_front()?;
        let of_namespace = self.of_namespaces.get_mut(&namespace)?;
        let service = of_namespace.pop_front()?;
        if of_namespace.is_empty() {
            self.of_namespaces.remove(&namespace);
        } else {
            self.namespaces.push_back(namespace);
        }
        let scope = self.scopes.remove(&service)?;
        Some((service, scope))
    }

    /// True if the Service has no VIPs: what it waits for may end its denials.
    pub fn suspends(&self, service: &ObjectName) -> bool {
        self.scopes.get(service).is_some_and(Scope::may_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Watched;
    use std::time::Duration;

    fn name(text: &str) -> ObjectName {
        ObjectName::new("ns", text)
    }

    fn at(last: &[u8]) -> Scope {
        let ips = last
            .iter()
            .map(|last| Addr::v4([10, 0, 0, *last]))
            .collect();
        Scope {
            ips,
            ..Scope::default()
        }
    }

    #[test]
    fn a_service_that_changes_again_keeps_its_turn_and_is_judged_once() {
        let mut queue = Queue::default();
        let all = |scope| Scope { all: true, ..scope };
        for (service, scope) in [
            ("b", at(&[1])),
            ("a", all(at(&[]))),
            ("b", at(&[3])),
            ("a", at(&[4])),
        ] {
            queue.push(name(service), scope);
        }
        assert_eq!(queue.pop(), Some((name("b"), at(&[1, 3]))));
        assert_eq!(queue.pop(), Some((name("a"), all(at(&[4])))));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn namespaces_take_turns_and_so_do_the_services_of_each() {
        let mut queue = Queue::default();
        for (namespace, service) in [
            ("a", "1"),
            ("a", "2"),
            ("a", "3"),
            ("b", "1"),
            ("b", "2"),
            ("c", "1"),
        ] {
            queue.push(ObjectName::new(namespace, service), at(&[1]));
        }
        let mut order = Vec::new();
        while let Some((service, _)) = queue.pop() {
            order.push(format!("{}{}", service.namespace, service.name));
            if order.len() == 1 {
                queue.push(service, at(&[2]));
            }
        }
        assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3", "a1"]);
    }

    #[test]
    fn after_its_last_ip_the_first_is_judged_however_often_that_is_marked() {
        let mut scope = at(&[1, 2, 3]);
        let mut order = Vec::new();
        for _ in 0..5 {
            let ip = scope.take_next().unwrap();
            order.push((ip, scope.is_through));
            scope.join(at(&[1]));
        }
        let expected = [(1, false), (2, false), (3, false), (1, true), (1, true)];
        assert_eq!(
            order,
            expected.map(|(last, is_through)| (Addr::v4([10, 0, 0, last]), is_through))
        );
        scope.join(Scope::on(ReceivedList::whole(
            Watched::Pods,
            Duration::ZERO,
        )));
        scope.take_next();
        assert!(!scope.is_through, "a list begins with the first IP");
    }

    #[test]
    fn lists_that_wait_agree_with_nothing_once_a_fact_has_changed_the_service() {
        let list = |kind, sent| ReceivedList::whole(kind, Duration::from_secs(sent));
        let agreeing = |scope: &Scope| {
            let lists = scope.lists.iter();
            lists
                .map(|list| (list.kind, list.is_later_than(Duration::ZERO)))
                .collect::<Vec<_>>()
        };
        let mut scope = Scope::on(list(Watched::Pods, 1));
        scope.join(Scope::on(list(Watched::EndpointSlices, 2)));
        assert_eq!(
            agreeing(&scope),
            [(Watched::Pods, true), (Watched::EndpointSlices, true)]
        );
        scope.join(Scope::on(list(Watched::Pods, 3)));
        scope.join(at(&[1]));
        assert_eq!(
            agreeing(&scope),
            [(Watched::Pods, false), (Watched::EndpointSlices, false)]
        );
        scope.join(Scope::on(list(Watched::Pods, 4)));
        assert_eq!(agreeing(&scope)[2..], [(Watched::Pods, true)]);
    }

    #[test]
    fn a_service_is_suspended_until_all_is_judged_of_which_a_denial_may_end() {
        let mut queue = Queue::default();
        let mut is_suspended = |scope: Scope| {
            queue.push(name("a"), scope);
            queue.suspends(&name("a"))
        };
        let begins = || Scope {
            others: at(&[1, 2]).ips,
            all: true,
            ..Scope::default()
        };
        assert!(!is_suspended(begins()));
        assert!(is_suspended(at(&[2])));
        let (service, mut scope) = queue.pop().unwrap();
        assert!(!queue.suspends(&service));
        for expected in [true, false] {
            scope.take_next();
            queue.push(service.clone(), scope);
            assert_eq!(queue.suspends(&service), expected);
            (_, scope) = queue.pop().unwrap();
        }
        assert!(scope.is_done());
        for scope in [
            Scope {
                ends: Ends::ByStarts,
                ..begins()
            },
            Scope {
                vips: true,
                ..begins()
            },
        ] {
            queue.push(service.clone(), scope);
            assert!(queue.suspends(&service));
            queue.pop();
        }
    }
}
