//! Second opinions: the lists that pending denials wait for, and when to request them.
//!
//! A mass of denials comes to all agents of a cluster at once, and any tenant can cause one. So
//! each list covers only what a denial rests on, a namespace requests only a few, an agent only a
//! few more, and one that fails is requested again after longer and longer.

use crate::bucket::Bucket;
use crate::facts::{Change, Fact, Selection, Text, Watched};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Lists are requested this long after they are first wanted: a mass comes in pieces, and a slice
/// that follows the pod's end by a moment confirms the denial without a list.
pub const DELAY: Duration = Duration::from_millis(500);

/// A list that was requested and has not come is requested again after this time, then after twice
/// as long.
const RETRY: Duration = Duration::from_secs(30);

/// How many times the wait doubles.
const DOUBLINGS: u32 = 4;

/// Lists that the Services of one namespace may request at once; each is one of every agent.
/// Further pending denials wait.
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

/// A list that has to agree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opinion {
    /// The collection.
    pub kind: Watched,
    /// Which objects of it; none: all.
    pub selection: Option<Selection>,
}

impl Opinion {
    /// Adds the other list to this one, if one request can ask for both. False if not.
    fn join(&mut self, other: &Self) -> bool {
        match (&mut self.selection, &other.selection) {
            (Some(one), Some(further)) => self.kind == other.kind && one.join(further),
            _ => false,
        }
    }
}

/// Lists that are wanted, each with the namespaces that request it; none: this node does.
pub(crate) type Wanted = BTreeMap<Opinion, BTreeSet<Text>>;

/// A list that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedList {
    /// The collection.
    pub kind: Watched,
    /// What it selects; none: the whole collection.
    pub part: Option<Selection>,
    /// When it was requested. `None`: it confirms nothing, as facts have changed since what it
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
        let (kind, selection, sent) = match fact {
            Fact::Pod(Change::Part(part)) => (Watched::Pods, &part.selection, part.sent),
            Fact::Slice(Change::Part(part)) => {
                (Watched::EndpointSlices, &part.selection, part.sent)
            }
            fact => return Watched::listed_by(fact).map(|kind| Self::whole(kind, sent)),
        };
        let (part, sent) = (Some(selection.clone()), Some(sent));
        Some(Self { kind, part, sent })
    }

    /// True if the list is the wanted one, or covers it.
    pub fn answers(&self, opinion: &Opinion) -> bool {
        let covers = |part: &Selection| {
            opinion
                .selection
                .as_ref()
                .is_some_and(|one| part.covers(one))
        };
        self.kind == opinion.kind && self.part.as_ref().is_none_or(covers)
    }

    /// True unless the list was requested by that moment: then it may be as old as the list that it
    /// should confirm.
    pub fn is_later_than(&self, moment: Duration) -> bool {
        self.sent.is_some_and(|sent| sent > moment)
    }

    /// Facts have changed what it showed: it confirms nothing any more.
    pub fn outdate(&mut self) {
        (self.part, self.sent) = (None, None);
    }
}

/// Shortest time over which all agents of a cluster spread a list that the same event makes them
/// request.
pub const SPREAD: Duration = Duration::from_secs(2);

/// The time over which the agents of a cluster of so many nodes spread a list that the same event
/// makes them request: 200 of them a second.
pub fn spread(nodes: usize) -> Duration {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    Duration::from_millis(5).saturating_mul(nodes).max(SPREAD)
}

/// The lists that were requested, and those that may still be.
#[derive(Debug, Clone)]
pub(crate) struct Opinions {
    due: BTreeMap<Opinion, Due>,
    of_node: Bucket,
    of_namespaces: BTreeMap<Text, Bucket>,
    /// Lists of everything.
    whole: Bucket,
    /// The list that was requested last: the next turn begins after it.
    last: Option<Opinion>,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    at: Duration,
    requested: u32,
}

impl Default for Opinions {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            of_node: Bucket::new(OF_NODE_EVERY, OF_NODE),
            of_namespaces: BTreeMap::new(),
            whole: Bucket::new(WHOLE_EVERY, WHOLE),
            last: None,
        }
    }
}

impl Opinions {
    /// Notes a list that has come: the next one starts with a new delay.
    pub(crate) fn received(&mut self, list: &ReceivedList) {
        self.due.retain(|opinion, _| !list.answers(opinion));
    }

    /// The wanted lists to request now: each once, `DELAY` after it was first wanted, and again if
    /// it does not come within `spread` and `RETRY`.
    pub(crate) fn take_due(
        &mut self,
        now: Duration,
        wanted: &Wanted,
        spread: Duration,
    ) -> Vec<Opinion> {
        self.due.retain(|opinion, _| wanted.contains_key(opinion));
        self.of_namespaces.retain(|_, bucket| !bucket.is_full(now));
        for opinion in wanted.keys() {
            let at = now + DELAY;
            self.due
                .entry(opinion.clone())
                .or_insert(Due { at, requested: 0 });
        }
        let due = self.due.iter().filter(|(_, due)| due.at <= now);
        let mut due: Vec<Opinion> = due.map(|(opinion, _)| opinion.clone()).collect();
        let next = due.partition_point(|opinion| Some(opinion) <= self.last.as_ref());
        due.rotate_left(next);
        let (mut lists, mut alone): (Vec<Opinion>, Vec<Opinion>) = Default::default();
        for opinion in due {
            // One that did not come twice is requested alone: the others may not have come because
            // of it.
            let is_usual = self.due.get(&opinion).is_some_and(|due| due.requested < 2);
            let is_joined = is_usual && lists.iter_mut().any(|list| list.join(&opinion));
            if !is_joined
                && !wanted
                    .get(&opinion)
                    .is_some_and(|by| self.may_request(now, &opinion, by))
            {
                continue;
            }
            if let Some(due) = self.due.get_mut(&opinion) {
                due.at = now + spread + RETRY * 2_u32.pow(due.requested.min(DOUBLINGS));
                due.requested += 1;
            }
            if !is_joined {
                let lists = if is_usual { &mut lists } else { &mut alone };
                lists.push(opinion.clone());
            }
            self.last = Some(opinion);
        }
        lists.append(&mut alone);
        lists
    }

    /// Takes a token of one of the namespaces, and one of the agent, if both have one.
    fn may_request(&mut self, now: Duration, opinion: &Opinion, by: &BTreeSet<Text>) -> bool {
        let is_whole = opinion.selection.is_none();
        if !self.of_node.wait(now).is_zero() || is_whole && !self.whole.wait(now).is_zero() {
            return false;
        }
        let is_paid = by.is_empty()
            || by.iter().any(|namespace| {
                let bucket = self.of_namespaces.entry(namespace.clone());
                bucket
                    .or_insert_with(|| Bucket::new(OF_NAMESPACE_EVERY, OF_NAMESPACE))
                    .take(now)
            });
        is_paid && (!is_whole || self.whole.take(now)) && self.of_node.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The collections of which everything is requested, when that is wanted of these.
    fn requested(opinions: &mut Opinions, now: Duration, wanted: &[Watched]) -> Vec<Watched> {
        let wanted = wanted.iter().map(|kind| {
            (
                Opinion {
                    kind: *kind,
                    selection: None,
                },
                BTreeSet::new(),
            )
        });
        let wanted: Wanted = wanted.collect();
        let mut due = opinions.take_due(now, &wanted, SPREAD);
        due.append(&mut opinions.take_due(now + DELAY, &wanted, SPREAD));
        for opinion in &due {
            opinions.received(&ReceivedList::whole(opinion.kind, now + DELAY));
        }
        due.into_iter().map(|opinion| opinion.kind).collect()
    }

    #[test]
    fn everything_of_each_collection_is_requested_at_once_and_again_ten_minutes_later_each() {
        let (mut opinions, mut now) = (Opinions::default(), Duration::ZERO);
        let all = [
            Watched::Pods,
            Watched::EndpointSlices,
            Watched::Services,
            Watched::Nodes,
        ];
        assert_eq!(requested(&mut opinions, now, &all), all);
        now += Duration::from_secs(30);
        assert_eq!(requested(&mut opinions, now, &all), []);
        now += WHOLE_EVERY;
        assert_eq!(requested(&mut opinions, now, &all).len(), 1);
    }
}
