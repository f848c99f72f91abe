//! A denial that waits for a second list.

use super::{Life, Proven, Socket, World};
use crate::facts::{Name, Watched};
use epguard_common::{Uid, UidState};
use std::collections::BTreeSet;
use std::time::Duration;

/// What the breaker knows of one denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The pod that was meant.
    meant: Uid,
    state: UidState,
    /// `None`: it is carried out.
    pub hold: Option<Hold>,
    /// Whether it is proven now. One that is held stays known until a list disagrees: its proof may come back with an
    /// event that says nothing about the list.
    pub proven: bool,
}

/// Why and since when a denial is only reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hold {
    pub why: Why,
    pub since: Duration,
    /// The lists that have to agree.
    pub waits: BTreeSet<Watched>,
}

/// What the breaker distrusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// One list alone says so.
    OneList,
    /// More than half of the Service's endpoints that were ready not long ago would be denied.
    Half,
}

impl Why {
    /// As the status and the log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OneList => "one-list",
            Self::Half => "more-than-half",
        }
    }
}

impl Known {
    pub fn new(proven: &Proven, hold: Option<Hold>) -> Self {
        Self {
            meant: proven.meant,
            state: proven.state,
            hold,
            proven: true,
        }
    }

    /// Whether the proof denies what it did not deny before.
    pub fn is_outgrown_by(&self, proven: &Proven) -> bool {
        let weaker = self.state == UidState::Retired && proven.state == UidState::Dead;
        self.meant != proven.meant || weaker
    }

    /// A list shows it still, or shows it no more. False if that list was asked for and disagrees.
    pub fn hear(&mut self, list: Option<Watched>, proven: Option<&Proven>) -> bool {
        self.proven = proven.is_some();
        if proven.is_some_and(|proven| proven.state == UidState::Retired) {
            self.state = UidState::Retired;
        }
        let Some(hold) = &mut self.hold else {
            return self.proven;
        };
        let asked = list.is_some_and(|list| hold.waits.contains(&list));
        if asked && !self.proven {
            return false;
        }
        if let Some(list) = list.filter(|_| asked) {
            hold.waits.remove(&list);
        }
        if hold.waits.is_empty() {
            self.hold = None;
        }
        self.proven || self.hold.is_some()
    }
}

impl Hold {
    /// Waits for the lists that the proof rests on, and for another one of the kind that brought it.
    pub fn new(world: &World, now: Duration, why: Why, list: Option<Watched>, key: (&Name, &Socket)) -> Self {
        let (service, socket) = key;
        let mut waits: BTreeSet<Watched> = BTreeSet::from([Watched::Pods]);
        waits.extend(list);
        if world.listings.is_listed(service, socket.ip) {
            waits.insert(Watched::EndpointSlices);
        }
        let since = now;
        Self { why, since, waits }
    }
}

/// Whether one list and nothing else shows the end of the pod that was meant.
pub(super) fn rests_on_one_list(world: &World, proven: &Proven) -> bool {
    let meant = world.pods.get(proven.meant);
    meant.is_some_and(|record| record.unconfirmed)
}

/// Proof by the kubelet for an endpoint that no slice lists any more: two components agree.
pub(super) fn is_plain(world: &World, service: &Name, socket: &Socket, proven: &Proven) -> bool {
    let meant = world.pods.get(proven.meant);
    let dead = meant.is_some_and(|record| record.life == Life::Dead);
    dead && !world.listings.lists(service, socket.ip, proven.meant)
}
