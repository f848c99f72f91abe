//! Index of the endpoints that each Service lists, or listed recently: conntrack, proxies and clients keep endpoints
//! longer than slices do.

use super::left_out::{LeftOut, OF_ALL, OF_ONE};
use super::places::Places;
use super::service_endpoints::{Endpoints, Entry};
use super::slice_part::SlicePart;
use super::{Endpoint, Listing, Port, Target};
use crate::counts::Groups;
use crate::facts::{Name, Part, Slice};
use crate::sorted_map::SortedMap;
use crate::state::index::Moment;
use crate::state::index::quota::{Quota, RETRIED};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// The endpoints of all Services.
#[derive(Debug, Clone, Default)]
pub struct EndpointIndex {
    pub(in crate::state) slices: HashMap<Name, Box<Slice>>,
    pub(in crate::state) services: HashMap<Name, Endpoints>,
    /// Where each pod is, or was, listed.
    pub(in crate::state) places: Places,
    /// The Services that list an IP, or did.
    pub(in crate::state) ips: SortedMap<(Addr, Name), ()>,
    /// The endpoints of each Service that no slice lists now, each with its [`Listing::place`].
    pub(super) remembered: Groups<Name, (Moment, Endpoint, Target)>,
    /// Quota of targets behind sockets.
    pub(in crate::state) room: Quota<OF_ALL>,
    pub(in crate::state) left_out: LeftOut,
}

/// The entries that a change of slices touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// (Service, IP) pairs.
    pub pairs: BTreeSet<(Name, Addr)>,
    /// Pods that are named there, or were until now.
    pub places: BTreeSet<(Uid, Addr, Name)>,
    /// Services whose pods a slice of another writer lists from now on.
    pub foreign: BTreeSet<Name>,
}

impl Touched {
    pub(in crate::state) fn add(&mut self, service: &Name, ip: Addr, target: Target) {
        self.pairs.insert((service.clone(), ip));
        self.places.extend(target.map(|uid| (uid, ip, service.clone())));
    }

    pub(in crate::state) fn extend(&mut self, other: Self) {
        self.pairs.extend(other.pairs);
        self.places.extend(other.places);
        self.foreign.extend(other.foreign);
    }
}

impl EndpointIndex {
    /// Applies a slice as the API shows it now.
    pub fn show(&mut self, now: Duration, slice: Slice) -> Touched {
        let mut touched = Touched::default();
        self.replace(now, slice, &mut touched);
        touched
    }

    /// Applies that the API shows a slice no more.
    pub fn delete(&mut self, now: Duration, slice: &Name) -> Touched {
        let mut touched = Touched::default();
        if let Some(slice) = self.slices.remove(slice)
            && !self.was_left_out(&slice, &mut touched)
            && let Some(whole) = SlicePart::whole(&slice)
        {
            self.unlist(now, &whole, &mut touched);
        }
        touched
    }

    /// Applies a list of some slices.
    pub fn apply_part(&mut self, now: Duration, part: Part<Slice>) -> Touched {
        let Part { selection, objects, later, .. } = part;
        let listed: HashSet<Name> = objects.iter().map(|slice| slice.name.clone()).collect();
        let stays = |name| later.contains(name) || listed.contains(name);
        let known = self.slices.values().filter(|slice| selection.has_slice(slice));
        let names = known.map(|slice| &slice.name).filter(|name| !stays(name));
        let gone: Vec<Name> = names.cloned().collect();
        let mut touched = Touched::default();
        for slice in objects {
            touched.extend(self.show(now, slice));
        }
        for name in gone {
            touched.extend(self.delete(now, &name));
        }
        touched
    }

    /// Takes in slices that were left out and have room by now. Looks at some of them each time.
    pub fn retry(&mut self, now: Duration) -> Touched {
        let mut touched = Touched::default();
        for name in self.left_out.without_room.take_turn(RETRIED) {
            let Some(slice) = self.slices.get(&name).cloned() else {
                continue;
            };
            let all = slice.endpoints.len() * slice.ports.len();
            if all <= OF_ONE && self.room.admits(&name.0, all) {
                touched.extend(self.show(now, *slice));
            }
        }
        touched
    }

    /// Notes a packet to a denied endpoint: a client still uses the endpoint, so the index keeps it.
    pub fn hit(&mut self, now: Duration, service: &Name, endpoint: &Endpoint) {
        if let Some(endpoints) = self.services.get_mut(service) {
            endpoints.listings_mut(endpoint).for_each(|listing| listing.hit(now));
        }
    }

    /// Adds a dead pod at the place where a Service once listed it, in a restore.
    pub fn record(&mut self, now: Duration, service: &Name, (endpoint, foreign): (Endpoint, bool), uid: Uid) {
        let endpoints = self.services.entry(service.clone()).or_default();
        let target = Some(uid);
        let listing = Listing::default();
        let new = endpoints.add(std::iter::once(Entry { endpoint, target, listing }));
        if let Some(listing) = endpoints.get_mut(&endpoint, target) {
            self.remembered.remove(service, &(listing.place(), endpoint, target));
            listing.last = now.into();
            listing.foreign |= foreign;
            if !listing.is_current() {
                self.remembered.insert(service.clone(), (listing.place(), endpoint, target));
            }
        }
        self.room.take(service.0.clone(), new);
        self.ips.insert((endpoint.ip, service.clone()), ());
        self.places.add(uid, endpoint.ip, None);
    }

    fn replace(&mut self, now: Duration, slice: Slice, touched: &mut Touched) {
        let known = self.slices.get(&slice.name);
        if known.is_some_and(|known| **known == slice) && !self.left_out.has(&slice.name) {
            return;
        }
        let before = self.slices.remove(&slice.name);
        let before = before.filter(|before| !self.was_left_out(before, touched));
        let before = before.as_deref();
        let new = SlicePart::missing_in(&slice, before);
        let mut gone = before.and_then(|before| SlicePart::missing_in(before, Some(&slice)));
        match new {
            Some(new) if !slice.partial && self.has_room(&slice, &new) => self.list(&new, touched),
            Some(SlicePart { service, .. }) => {
                self.left_out.add(&slice, service);
                self.touch_all(&slice, touched);
                gone = before.and_then(SlicePart::whole);
            }
            None => {}
        }
        if let Some(gone) = gone {
            self.unlist(now, &gone, touched);
        }
        if before.is_some_and(|before| before.ports != slice.ports) && !self.left_out.has(&slice.name) {
            self.rename_ports(&slice);
        }
        self.slices.insert(slice.name.clone(), slice.into());
    }

    /// Removes a slice that was left out; false if it was not left out.
    fn was_left_out(&mut self, slice: &Slice, touched: &mut Touched) -> bool {
        let left_out = self.left_out.remove(slice);
        if left_out {
            self.touch_all(slice, touched);
        }
        left_out
    }

    fn touch_all(&self, slice: &Slice, touched: &mut Touched) {
        let Some(service) = &slice.service else { return };
        let shown = slice.endpoints.iter().map(|shown| shown.ip);
        let ips = self.ips(service).into_iter().chain(shown);
        touched.pairs.extend(ips.map(|ip| (service.clone(), ip)));
    }

    fn has_room(&self, slice: &Slice, new: &SlicePart<'_>) -> bool {
        let all = slice.endpoints.len() * slice.ports.len();
        if all > OF_ONE || self.room.admits(&new.service.0, all) {
            return all <= OF_ONE;
        }
        let known = self.services.get(new.service);
        let is_new =
            |endpoint, target| known.is_none_or(|endpoints| endpoints.get(&endpoint, target).is_none());
        let new_ones = new.named().filter(|(endpoint, shown, _)| is_new(*endpoint, shown.target));
        self.room.admits(&new.service.0, new_ones.count())
    }

    fn list(&mut self, part: &SlicePart<'_>, touched: &mut Touched) {
        let service = part.service;
        if part.named().next().is_none() {
            return;
        }
        let endpoints = self.services.entry(service.clone()).or_default();
        let new = endpoints.add(part.named().map(|(endpoint, shown, port)| {
            let (target, mut listing) = (shown.target, Listing::default());
            listing.port.name(port.name);
            listing.add(shown.ready, part.foreign);
            Entry { endpoint, target, listing }
        }));
        self.room.take(service.0.clone(), new);
        if self.remembered.count(service) > 0 {
            for (endpoint, shown, _) in part.named() {
                if let Some(listing) = endpoints.get(&endpoint, shown.target) {
                    self.remembered.remove(service, &(listing.place(), endpoint, shown.target));
                }
            }
        }
        if part.foreign && part.endpoints.iter().any(|shown| shown.target.is_some()) {
            touched.foreign.insert(service.clone());
        }
        let mut renamed = BTreeSet::new();
        for shown in &part.endpoints {
            touched.add(service, shown.ip, shown.target);
            self.ips.insert((shown.ip, service.clone()), ());
            let is_new = |uid: &Uid| self.places.add(*uid, shown.ip, shown.target_name);
            renamed.extend(shown.target.filter(is_new));
        }
        // Other Services may list them under other names, or under none.
        let ips: BTreeSet<Addr> = renamed.iter().flat_map(|uid| self.places.ips(*uid)).collect();
        for ip in ips {
            let names_one = |service: &&Name| {
                let mut targets = self.at(service, ip).flat_map(|(_, targets)| targets.keys().flatten());
                targets.any(|uid| renamed.contains(&uid))
            };
            let services = self.services_at(ip).filter(names_one);
            touched.pairs.extend(services.map(|service| (service.clone(), ip)));
        }
    }

    /// Takes the names of ports from the slice where no other one lists the same: what it called them before does not count.
    fn rename_ports(&mut self, slice: &Slice) {
        let Some(part) = SlicePart::whole(slice) else {
            return;
        };
        let Some(endpoints) = self.services.get_mut(part.service) else {
            return;
        };
        for (endpoint, shown, port) in part.named() {
            if let Some(listing) =
                endpoints.get_mut(&endpoint, shown.target).filter(|listing| listing.slices == 1)
            {
                listing.port = Port::Named(port.name);
            }
        }
    }

    fn unlist(&mut self, now: Duration, part: &SlicePart<'_>, touched: &mut Touched) {
        let service = part.service;
        let Some(endpoints) = self.services.get_mut(service) else {
            return;
        };
        for (endpoint, shown, _) in part.named() {
            let target = shown.target;
            if let Some(listing) = endpoints.get_mut(&endpoint, target).filter(|listing| listing.is_current())
            {
                listing.take_away(now, shown.ready);
                if !listing.is_current() {
                    self.remembered.insert(service.clone(), (listing.place(), endpoint, target));
                }
            }
        }
        for shown in &part.endpoints {
            touched.add(service, shown.ip, shown.target);
        }
        self.drop_surplus(service, touched);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{PortName, Protocol, Slice, SliceEndpoint, SlicePort};
    use crate::state::MEMORY;

    fn slice(namespace: &str, name: &str, endpoints: u8) -> Slice {
        let endpoint = |last| SliceEndpoint {
            ip: Addr::v4([10, 0, 0, last]),
            target: None,
            target_name: None,
            ready: true,
        };
        Slice {
            name: (namespace.into(), name.into()),
            service: Some((namespace.into(), name.into())),
            endpoints: (1..=endpoints).map(endpoint).collect(),
            ports: vec![SlicePort { name: PortName::new("http"), port: 80, protocol: Protocol::Tcp }],
            partial: false,
            foreign: false,
            triggered: None,
        }
    }

    #[test]
    fn a_namespace_fills_at_most_half_of_the_index_and_gets_room_that_is_given_back() {
        let mut endpoint_index = EndpointIndex::default();
        endpoint_index.room.take("others".into(), OF_ALL - 8);
        let mut now = Duration::from_secs(1);
        let mut list = |namespace, name, endpoints| {
            endpoint_index.show(now, slice(namespace, name, endpoints));
            endpoint_index.leaves_out(&(namespace.into(), name.into()))
        };
        assert!(list("flood", "a", 9));
        assert!(!list("flood", "a", 4));
        assert!(!list("flood", "a", 4), "what is listed already takes no more room");
        assert!(list("flood", "b", 1));
        assert!(!list("shop", "web", 2));
        endpoint_index.delete(now, &("flood".into(), "a".into()));
        endpoint_index.delete(now, &("shop".into(), "web".into()));
        assert!(endpoint_index.left_out.has(&("flood".into(), "b".into())));
        endpoint_index.retry(now);
        assert!(endpoint_index.left_out.has(&("flood".into(), "b".into())));
        now += MEMORY * 2;
        endpoint_index.expire(now);
        endpoint_index.retry(now);
        assert!(!endpoint_index.left_out.has(&("flood".into(), "b".into())));
    }
}
