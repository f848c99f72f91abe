//! The endpoints of one Service, with the pods that were named behind them, in one sorted array.

use super::{Endpoint, Listing, Target};
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;

/// A pod that was named behind an endpoint.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) endpoint: Endpoint,
    pub(super) target: Target,
    pub(super) listing: Listing,
}

/// All endpoints of a Service, by endpoint and target.
#[derive(Debug, Clone, Default)]
pub(super) struct Endpoints(Vec<Entry>);

/// The pods that were named behind one endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Targets<'a>(&'a [Entry]);

/// The array grows by one part of this many.
const SPARE: usize = 8;

/// So many entries are put in or taken out one by one; more of them in one pass over all others.
const FEW: usize = 4;

impl Endpoints {
    /// How many targets there are, behind all endpoints.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All endpoints.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
        grouped(&self.0)
    }

    /// The endpoints at an IP.
    pub(super) fn at(&self, ip: Addr) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
        let first = self.0.partition_point(|entry| entry.endpoint.ip < ip);
        let own = &self.0[first..];
        let count = own.partition_point(|entry| entry.endpoint.ip == ip);
        grouped(&own[..count])
    }

    /// The endpoints of all greater IPs, or of all.
    pub(super) fn after(&self, ip: Option<Addr>) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
        let is_before = |entry: &Entry| ip.is_some_and(|ip| entry.endpoint.ip <= ip);
        grouped(&self.0[self.0.partition_point(is_before)..])
    }

    /// The targets behind an endpoint.
    pub(super) fn targets(&self, endpoint: &Endpoint) -> Option<Targets<'_>> {
        let mut found = self.at(endpoint.ip).filter(|(own, _)| *own == endpoint);
        found.next().map(|(_, targets)| targets)
    }

    /// The listing of a target.
    pub(super) fn get(&self, endpoint: &Endpoint, target: Target) -> Option<&Listing> {
        let at = self.position(endpoint, target)?;
        Some(&self.0[at].listing)
    }

    /// The listing of a target, to change it.
    pub(super) fn get_mut(&mut self, endpoint: &Endpoint, target: Target) -> Option<&mut Listing> {
        let at = self.position(endpoint, target)?;
        Some(&mut self.0[at].listing)
    }

    /// The listings of all targets of an endpoint, to change them.
    pub(super) fn listings_mut(&mut self, endpoint: &Endpoint) -> impl Iterator<Item = &mut Listing> {
        let first = self.0.partition_point(|entry| entry.endpoint < *endpoint);
        let own = self.0[first..]
            .iter_mut()
            .take_while(|entry| entry.endpoint == *endpoint);
        own.map(|entry| &mut entry.listing)
    }

    /// Adds listings to those that are known. Returns how many targets are new.
    pub(super) fn add(&mut self, listed: impl Iterator<Item = Entry>) -> usize {
        let known = self.len();
        let mut new = Vec::new();
        for entry in listed {
            match self.get_mut(&entry.endpoint, entry.target) {
                Some(listing) => listing.merge(&entry.listing),
                None => new.push(entry),
            }
        }
        if new.is_empty() {
            return 0;
        }
        new.sort_by_key(key);
        new.dedup_by(|later, earlier| {
            let same = key(later) == key(earlier);
            if same {
                earlier.listing.merge(&later.listing);
            }
            same
        });
        let room = self.0.capacity() - known;
        if room < new.len() {
            self.0.reserve_exact(new.len().max(known / SPARE));
        }
        let added = new.len();
        if added <= FEW {
            for entry in new {
                let at = self.0.partition_point(|known| key(known) < key(&entry));
                self.0.insert(at, entry);
            }
        } else {
            self.0.append(&mut new);
            // Two sorted runs: the sort merges them.
            self.0.sort_by_key(key);
        }
        added
    }

    /// Removes targets. Returns how many of them there were.
    pub(super) fn remove(&mut self, gone: &[(Endpoint, Target)]) -> usize {
        let before = self.len();
        if gone.len() <= FEW {
            for (endpoint, target) in gone {
                if let Some(at) = self.position(endpoint, *target) {
                    self.0.remove(at);
                }
            }
        } else {
            let gone: BTreeSet<(Endpoint, Target)> = gone.iter().copied().collect();
            self.0.retain(|entry| !gone.contains(&key(entry)));
        }
        if self.0.len() + self.0.len() / SPARE < self.0.capacity() / 2 {
            self.0.shrink_to(self.0.len() + self.0.len() / SPARE);
        }
        before - self.len()
    }

    fn position(&self, endpoint: &Endpoint, target: Target) -> Option<usize> {
        self.0.binary_search_by_key(&(*endpoint, target), key).ok()
    }
}

impl<'a> Targets<'a> {
    /// The pods, with their listings.
    pub fn iter(self) -> impl Iterator<Item = (Target, &'a Listing)> {
        self.0.iter().map(|entry| (entry.target, &entry.listing))
    }

    /// The pods.
    pub fn keys(self) -> impl Iterator<Item = Target> {
        self.0.iter().map(|entry| entry.target)
    }

    /// Their listings.
    pub fn values(self) -> impl Iterator<Item = &'a Listing> {
        self.0.iter().map(|entry| &entry.listing)
    }

    /// The listing of a pod.
    #[must_use]
    pub fn get(self, target: Target) -> Option<&'a Listing> {
        let at = self.0.binary_search_by_key(&target, |entry| entry.target).ok()?;
        Some(&self.0[at].listing)
    }

    /// True if the pod is one of them.
    #[must_use]
    pub fn contains(self, uid: Uid) -> bool {
        self.get(Some(uid)).is_some()
    }
}

fn key(entry: &Entry) -> (Endpoint, Target) {
    (entry.endpoint, entry.target)
}

fn grouped(entries: &[Entry]) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
    let groups = entries.chunk_by(|one, other| one.endpoint == other.endpoint);
    groups.map(|group| (&group[0].endpoint, Targets(group)))
}
