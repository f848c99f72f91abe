//! The endpoints of one Service, with the pods that were named behind them, in one sorted array.

use super::{Endpoint, Listing, Target};
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;

/// A pod that was named behind an endpoint.
#[derive(Debug, Clone)]
pub(in crate::state) struct Entry {
    pub(in crate::state) endpoint: Endpoint,
    pub(in crate::state) target: Target,
    pub(in crate::state) listing: Listing,
}

/// All endpoints of a Service, by endpoint and target.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Endpoints(Vec<Entry>);

/// The pods that were named behind one endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Targets<'a>(&'a [Entry]);

/// The array grows by one part of this many.
const SPARE: usize = 8;

/// So many entries are put in or taken out one by one; more of them in one pass over all others.
const FEW: usize = 4;

impl Endpoints {
    /// How many targets there are, behind all endpoints.
    pub(in crate::state) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::state) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The endpoints at an IP.
    pub(in crate::state) fn at(&self, ip: Addr) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
        let first = self.0.partition_point(|entry| entry.endpoint.ip < ip);
        let own = &self.0[first..];
        let count = own.partition_point(|entry| entry.endpoint.ip == ip);
        grouped(&own[..count])
    }

    /// The endpoints of all greater IPs, or of all.
    pub(in crate::state) fn after(&self, ip: Option<Addr>) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
        let is_before = |entry: &Entry| ip.is_some_and(|ip| entry.endpoint.ip <= ip);
        grouped(&self.0[self.0.partition_point(is_before)..])
    }

    /// The targets behind an endpoint.
    pub(in crate::state) fn targets(&self, endpoint: &Endpoint) -> Option<Targets<'_>> {
        let first = self.0.partition_point(|entry| entry.endpoint < *endpoint);
        let own = run(&self.0[first..]);
        let is_own = own.first().is_some_and(|entry| entry.endpoint == *endpoint);
        is_own.then_some(Targets(own))
    }

    /// The listing of a target.
    pub(in crate::state) fn get(&self, endpoint: &Endpoint, target: Target) -> Option<&Listing> {
        let at = self.position(endpoint, target)?;
        Some(&self.0[at].listing)
    }

    /// The listing of a target, to change it.
    pub(in crate::state) fn get_mut(&mut self, endpoint: &Endpoint, target: Target) -> Option<&mut Listing> {
        let at = self.position(endpoint, target)?;
        Some(&mut self.0[at].listing)
    }

    /// The listings of all targets of an endpoint, to change them.
    pub(in crate::state) fn listings_mut(
        &mut self,
        endpoint: &Endpoint,
    ) -> impl Iterator<Item = &mut Listing> {
        let first = self.0.partition_point(|entry| entry.endpoint < *endpoint);
        let own = self.0[first..].iter_mut().take_while(|entry| entry.endpoint == *endpoint);
        own.map(|entry| &mut entry.listing)
    }

    /// Adds listings to those that are known. Returns how many targets are new.
    pub(in crate::state) fn add(&mut self, listed: impl Iterator<Item = Entry>) -> usize {
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
    pub(in crate::state) fn remove(&mut self, gone: &[(Endpoint, Target)]) -> usize {
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

fn grouped(mut entries: &[Entry]) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
    std::iter::from_fn(move || {
        let group = run(entries);
        entries = &entries[group.len()..];
        Some((&group.first()?.endpoint, Targets(group)))
    })
}

/// The entries of the first endpoint. It is looked for in steps that double: most endpoints have one entry, some thousands.
fn run(entries: &[Entry]) -> &[Entry] {
    let Some(first) = entries.first() else {
        return entries;
    };
    let is_own = |entry: &Entry| entry.endpoint == first.endpoint;
    let mut end = 1;
    while entries.get(end).is_some_and(is_own) {
        end *= 2;
    }
    let end = end.min(entries.len());
    &entries[..entries[..end].partition_point(is_own)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Protocol;

    fn endpoint(port: u16) -> Endpoint {
        Endpoint { ip: Addr::v4([10, 0, 0, 1]), port, protocol: Protocol::Tcp }
    }

    fn entry(port: u16, pod: u16) -> Entry {
        let mut listing = Listing::default();
        listing.add(true, false);
        Entry { endpoint: endpoint(port), target: Uid::parse(&pod.to_string()), listing }
    }

    fn of(entries: &[(u16, u16)]) -> Endpoints {
        let mut endpoints = Endpoints::default();
        let added = endpoints.add(entries.iter().map(|(port, pod)| entry(*port, *pod)));
        assert_eq!(added, endpoints.len());
        endpoints
    }

    #[test]
    fn each_endpoint_has_its_own_targets_however_many_there_are() {
        for counts in [[0, 1, 2], [1, 3, 9], [64, 65, 1], [1, 1, 1]] {
            let pods = |port: u16| (0..counts[usize::from(port)]).map(move |pod| (port, pod));
            let entries: Vec<(u16, u16)> = (0..3).flat_map(pods).collect();
            let endpoints = of(&entries);
            let found: Vec<(u16, usize)> = endpoints
                .after(None)
                .map(|(endpoint, targets)| (endpoint.port, targets.iter().count()))
                .collect();
            let all = (0..3).map(|port| (port, usize::from(counts[usize::from(port)])));
            assert_eq!(found, all.clone().filter(|(_, count)| *count > 0).collect::<Vec<_>>());
            for (port, count) in all {
                let targets = endpoints.targets(&endpoint(port));
                assert_eq!(targets.map_or(0, |targets| targets.keys().count()), count);
            }
        }
    }

    #[test]
    fn a_target_that_is_added_twice_is_one_target_of_two_slices() {
        for further in [0, 9] {
            let mut endpoints = of(&[(1, 1), (1, 2)]);
            let more = [entry(1, 1), entry(1, 3), entry(1, 3)];
            let further = (0..further).map(|pod| entry(2, pod));
            let expected = 1 + further.len();
            assert_eq!(endpoints.add(more.into_iter().chain(further)), expected);
            for (pod, slices) in [(1, 2), (2, 1), (3, 2)] {
                let listing = endpoints.get(&endpoint(1), entry(1, pod).target);
                assert_eq!(listing.map(|listing| (listing.slices, listing.ready)), Some((slices, slices)));
            }
        }
    }

    #[test]
    fn removed_targets_are_gone_and_no_others() {
        for pods in [1..3, 1..40] {
            let all: Vec<(u16, u16)> = (0..50).map(|pod| (1, pod)).collect();
            let mut endpoints = of(&all);
            let gone: Vec<(Endpoint, Target)> =
                pods.clone().map(|pod| (endpoint(1), entry(1, pod).target)).collect();
            assert_eq!(endpoints.remove(&gone), gone.len());
            assert_eq!(endpoints.remove(&gone), 0);
            for pod in 0..50 {
                let known = endpoints.get(&endpoint(1), entry(1, pod).target).is_some();
                assert_eq!(known, !pods.contains(&pod));
            }
        }
    }
}
