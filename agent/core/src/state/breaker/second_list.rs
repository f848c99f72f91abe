//! Second lists: which lists stopped denials await, and when the agent requests them.
//!
//! A mass of denials comes to all agents of a cluster at once, and any tenant can cause one. So
//! each list covers only what a denial rests on, a namespace requests only a few, an agent only a
//! few more, and the agent requests one that fails again after longer and longer pauses.

use crate::bucket::Bucket;
use crate::facts::{Change, Fact, Selection, Text, Watched};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The agent requests a list this long after a denial first awaits it: a mass comes in pieces, and
/// a slice that follows the pod's end by a moment agrees without a list.
pub const DELAY: Duration = Duration::from_millis(500);

/// A list that was requested and has not come is requested again after this time, then after twice
/// as long.
const RETRY: Duration = Duration::from_secs(30);

/// How many times the wait doubles.
const DOUBLINGS: u32 = 4;

/// Lists that the Services of one namespace may request at once; each is one of every agent.
/// Further stopped denials wait.
const OF_NAMESPACE: u32 = 8;

/// After this time a namespace may request another list.
const OF_NAMESPACE_EVERY: Duration = Duration::from_secs(30);

/// Lists that an agent may request at once.
const OF_NODE: u32 = 24;

/// After this time an agent may request another list.
const OF_NODE_EVERY: Duration = Duration::from_secs(5);

/// After this time an agent may request another list of everything, which interrupts a watch.
const WHOLE_EVERY: Duration = Duration::from_mins(10);

/// Lists of everything that an agent may request at once: of Pods, slices, Services and Nodes. A
/// denial that was found when all of these were listed waits for another list of each.
const WHOLE: u32 = 4;

/// A list that has to agree before a denial is carried out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecondList {
    /// The collection.
    pub kind: Watched,
    /// Which objects of it; none: all.
    pub selection: Option<Selection>,
}

impl SecondList {
    /// All objects of a collection.
    pub const fn of_everything(kind: Watched) -> Self {
        Self {
            kind,
            selection: None,
        }
    }

    /// Adds the other list to this one, if one request can ask for both. False if not.
    fn join(&mut self, other: &Self) -> bool {
        match (&mut self.selection, &other.selection) {
            (Some(one), Some(further)) => self.kind == other.kind && one.join(further),
            _ => false,
        }
    }
}

/// Lists that denials await, each with the namespaces that request it; none: this node does.
pub(crate) type Wanted = BTreeMap<SecondList, BTreeSet<Text>>;

/// A list that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedList {
    /// The collection.
    pub kind: Watched,
    /// What it selects; none: the whole collection.
    pub part: Option<Selection>,
    /// When it was requested. `None`: it agrees with no denial, because facts have changed what it
    /// showed.
    sent: Option<Duration>,
}

impl ReceivedList {
    /// A list of everything that was requested at that moment.
    pub const fn whole(kind: Watched, sent: Duration) -> Self {
        Self {
            kind,
            part: None,
            sent: Some(sent),
        }
    }

    /// The list that a fact is, if it is one. `sent`: when it was requested, should it be one of
    /// everything.
    pub fn from_fact(fact: &Fact, sent: Duration) -> Option<Self> {
        match fact {
            Fact::Pod(Change::Part(part)) => Some(Self {
                kind: Watched::Pods,
                part: Some(part.selection.clone()),
                sent: Some(part.sent),
            }),
            Fact::Slice(Change::Part(part)) => Some(Self {
                kind: Watched::EndpointSlices,
                part: Some(part.selection.clone()),
                sent: Some(part.sent),
            }),
            fact => Watched::listed_by(fact).map(|kind| Self::whole(kind, sent)),
        }
    }

    /// True if the list is the awaited one, or has all of its objects.
    pub fn covers(&self, awaited: &SecondList) -> bool {
        if self.kind != awaited.kind {
            return false;
        }
        match (&self.part, &awaited.selection) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(part), Some(selection)) => part.covers(selection),
        }
    }

    /// True unless the list was requested by that moment: then it may be as old as the list with
    /// which it should agree.
    pub fn is_later_than(&self, moment: Duration) -> bool {
        self.sent.is_some_and(|sent| sent > moment)
    }

    /// Facts have changed what it showed: it agrees with no denial any more.
    pub fn outdate(&mut self) {
        self.part = None;
        self.sent = None;
    }
}

/// Shortest time over which all agents of a cluster spread a list that the same event makes them
/// request.
const SPREAD: Duration = Duration::from_secs(2);

/// The time over which the agents of a cluster of so many nodes spread a list that the same event
/// makes them request: 200 of them a second.
pub fn request_spread(nodes: usize) -> Duration {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    Duration::from_millis(5).saturating_mul(nodes).max(SPREAD)
}

/// When the agent requests second lists.
#[derive(Debug, Clone)]
pub(crate) struct SecondLists {
    /// The lists that denials await, each with its next request.
    requests: BTreeMap<SecondList, NextRequest>,
    of_node: Bucket,
    of_namespaces: BTreeMap<Text, Bucket>,
    /// Lists of everything.
    whole: Bucket,
    /// The list that was requested last: the next turn begins after it.
    last: Option<SecondList>,
}

#[derive(Debug, Clone, Copy)]
struct NextRequest {
    due: Duration,
    /// How often the list was requested before.
    requested: u32,
}

impl Default for SecondLists {
    fn default() -> Self {
        Self {
            requests: BTreeMap::new(),
            of_node: Bucket::new(OF_NODE_EVERY, OF_NODE),
            of_namespaces: BTreeMap::new(),
            whole: Bucket::new(WHOLE_EVERY, WHOLE),
            last: None,
        }
    }
}

impl SecondLists {
    /// Ends the requests that a list has answered: a later one begins with a new delay.
    pub(crate) fn end_answered(&mut self, list: &ReceivedList) {
        self.requests.retain(|awaited, _| !list.covers(awaited));
    }

    /// The wanted lists to request now: each once, `DELAY` after it was first wanted, and again if
    /// it does not come within `spread` and `RETRY`.
    pub(crate) fn take_due(
        &mut self,
        now: Duration,
        wanted: &Wanted,
        spread: Duration,
    ) -> Vec<SecondList> {
        self.requests.retain(|list, _| wanted.contains_key(list));
        self.of_namespaces.retain(|_, bucket| !bucket.is_full(now));
        for list in wanted.keys() {
            self.requests.entry(list.clone()).or_insert(NextRequest {
                due: now + DELAY,
                requested: 0,
            });
        }
        let mut joined: Vec<SecondList> = Vec::new();
        let mut alone: Vec<SecondList> = Vec::new();
        for list in self.due_in_turn(now) {
            // One that did not come twice is requested alone: the others may not have come because
            // of it.
            let may_be_joined = self
                .requests
                .get(&list)
                .is_some_and(|request| request.requested < 2);
            let is_joined = may_be_joined && joined.iter_mut().any(|other| other.join(&list));
            if !is_joined {
                let Some(namespaces) = wanted.get(&list) else {
                    continue;
                };
                if !self.pay_for(now, &list, namespaces) {
                    continue;
                }
                if may_be_joined {
                    joined.push(list.clone());
                } else {
                    alone.push(list.clone());
                }
            }
            if let Some(request) = self.requests.get_mut(&list) {
                let pause = RETRY * 2_u32.pow(request.requested.min(DOUBLINGS));
                request.due = now + spread + pause;
                request.requested += 1;
            }
            self.last = Some(list);
        }
        joined.append(&mut alone);
        joined
    }

    /// The lists whose request is due, from the one whose turn it is.
    fn due_in_turn(&self, now: Duration) -> Vec<SecondList> {
        let mut due: Vec<SecondList> = Vec::new();
        for (list, request) in &self.requests {
            if request.due <= now {
                due.push(list.clone());
            }
        }
        let next = due.partition_point(|list| Some(list) <= self.last.as_ref());
        due.rotate_left(next);
        due
    }

    /// Takes a token of one of the namespaces, and one of the agent. False if one of them has none.
    fn pay_for(&mut self, now: Duration, list: &SecondList, namespaces: &BTreeSet<Text>) -> bool {
        let is_whole = list.selection.is_none();
        if !self.of_node.wait(now).is_zero() || is_whole && !self.whole.wait(now).is_zero() {
            return false;
        }
        if !namespaces.is_empty() && !self.take_of_namespace(now, namespaces) {
            return false;
        }
        (!is_whole || self.whole.take(now)) && self.of_node.take(now)
    }

    /// Takes a token of the first of the namespaces that has one.
    fn take_of_namespace(&mut self, now: Duration, namespaces: &BTreeSet<Text>) -> bool {
        namespaces.iter().any(|namespace| {
            self.of_namespaces
                .entry(namespace.clone())
                .or_insert_with(|| Bucket::new(OF_NAMESPACE_EVERY, OF_NAMESPACE))
                .take(now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The collections of which everything is requested, when that is wanted of these.
    fn requested(lists: &mut SecondLists, now: Duration, wanted: &[Watched]) -> Vec<Watched> {
        let wanted: Wanted = wanted
            .iter()
            .map(|kind| (SecondList::of_everything(*kind), BTreeSet::new()))
            .collect();
        let mut due = lists.take_due(now, &wanted, SPREAD);
        due.append(&mut lists.take_due(now + DELAY, &wanted, SPREAD));
        for list in &due {
            lists.end_answered(&ReceivedList::whole(list.kind, now + DELAY));
        }
        due.into_iter().map(|list| list.kind).collect()
    }

    #[test]
    fn everything_of_each_collection_is_requested_at_once_and_again_ten_minutes_later_each() {
        let mut lists = SecondLists::default();
        let mut now = Duration::ZERO;
        let all = [
            Watched::Pods,
            Watched::EndpointSlices,
            Watched::Services,
            Watched::Nodes,
        ];
        assert_eq!(requested(&mut lists, now, &all), all);
        now += Duration::from_secs(30);
        assert_eq!(requested(&mut lists, now, &all), []);
        now += WHOLE_EVERY;
        assert_eq!(requested(&mut lists, now, &all).len(), 1);
    }
}
