//! Index of the endpoints that each Service lists, or listed recently: conntrack, proxies and clients keep endpoints
//! longer than slices do.

use super::endpoint::OfService;
use super::places::Places;
use super::slice_part::SlicePart;
use super::{Endpoint, Listing, Target, Targets};
use crate::counts::{Groups, ungroup};
use crate::facts::{Name, Slice, Text};
use crate::sorted_map::SortedMap;
use crate::state::index::Moment;
use crate::state::index::quota::{LeftOut, Quota, RETRIED};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Pairs of address and port in one slice. A slice of 30 KB can have a million of them; the controller of Kubernetes
/// writes slices of at most 1,000 addresses.
const OF_ONE: usize = 8_192;

/// Endpoints that all Services list, or listed recently.
const OF_ALL: usize = 80 * OF_ONE;
/// How often a packet to an endpoint is noted.
const NOTED_EVERY: Duration = Duration::from_mins(1);

/// The endpoints of all Services.
#[derive(Debug, Clone, Default)]
pub struct EndpointIndex {
    pub(crate) slices: HashMap<Name, Box<Slice>>,
    pub(crate) services: HashMap<Name, OfService>,
    /// Services by the namespaces, other than their own, of the pods that their slices name.
    pub(super) guests: Groups<Text, Name>,
    /// Where each pod is, or was, listed.
    pub(crate) places: Places,
    /// The Services that list an IP, or did.
    pub(crate) ips: SortedMap<(Addr, Name), ()>,
    /// The endpoints of each Service that no slice lists now, each with its [`Listing::used`].
    pub(super) remembered: Groups<Name, (Moment, Endpoint, Target)>,
    /// Quota of targets behind sockets.
    pub(crate) room: Quota<OF_ALL>,
    /// Slices for whose endpoints there is no room, or that cannot be read in whole: nothing is denied of their Services, nor at their
    /// IPs.
    pub(crate) left_out: LeftOut<Name, Addr>,
}

/// The entries that a change of slices touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// (Service, IP) pairs.
    pub pairs: BTreeSet<(Name, Addr)>,
    /// Pods that are named there, or were until now.
    pub places: BTreeSet<(Uid, Addr, Name)>,
    /// Services of which a slice shows another writer, or another namespace.
    pub shows_writer: BTreeSet<Name>,
}

impl Touched {
    pub(crate) fn add(&mut self, service: &Name, ip: Addr, target: Target) {
        self.pairs.insert((service.clone(), ip));
        self.places.extend(target.map(|uid| (uid, ip, service.clone())));
    }
}

impl EndpointIndex {
    /// Adds or replaces a slice; removes it with `None`.
    pub fn set(&mut self, now: Duration, name: &Name, slice: Option<Slice>) -> Touched {
        let mut touched = Touched::default();
        self.replace(now, name, slice, &mut touched);
        touched
    }

    /// Takes in slices that were left out and have room by now. Looks at some of them each time.
    pub fn retry(&mut self, now: Duration) -> Touched {
        let mut touched = Touched::default();
        for name in self.left_out.take_turn(RETRIED) {
            let Some(slice) = self.slices.get(&name).filter(|slice| !slice.partial).cloned() else {
                continue;
            };
            let all = slice.endpoints.len() * slice.ports.len();
            if all <= OF_ONE && self.room.admits(&name.0, all) {
                self.replace(now, &name, Some(*slice), &mut touched);
            }
        }
        touched
    }

    /// Notes a packet to a denied endpoint: a client still uses the endpoint, so the index keeps it. At most once a minute, since
    /// thousands of targets may be behind it.
    pub fn hit(&mut self, now: Duration, service: &Name, endpoint: &Endpoint) {
        let is_old = |listing: &Listing| now.saturating_sub(listing.used.into()) >= NOTED_EVERY;
        let all = self.targets(service, endpoint).into_iter().flat_map(Targets::iter);
        let old: Vec<Target> = all.filter(|(_, listing)| is_old(listing)).map(|(target, _)| target).collect();
        for target in old {
            self.edit(service, *endpoint, target, |listing| listing.used = now.into());
        }
    }

    /// Adds a dead pod at the place where a Service once listed it, in a restore. `foreign`: another writer's slice did, or may have.
    pub fn record(&mut self, now: Duration, service: &Name, endpoint: Endpoint, uid: Uid, foreign: bool) {
        self.edit(service, endpoint, Some(uid), |listing| {
            (listing.last, listing.used) = (now.into(), now.into());
            listing.foreign |= foreign;
        });
    }

    /// Adds a namespace of which slices of a Service name pods. True if none did so.
    pub fn name_namespace(&mut self, service: &Name, namespace: &Text) -> bool {
        let Some(known) = self.services.get_mut(service) else {
            return false;
        };
        if known.namespaces.contains(namespace) {
            return false;
        }
        known.namespaces.push(namespace.clone());
        if *namespace != service.0 {
            self.guests.entry(namespace.clone()).or_default().insert(service.clone());
        }
        true
    }

    /// Drops what slices showed of a Service without endpoints.
    pub(super) fn forget_service(&mut self, service: &Name) {
        let Some(known) = self.services.remove(service) else {
            return;
        };
        for namespace in &known.namespaces {
            ungroup(&mut self.guests, namespace, service);
        }
    }

    /// Edits the listing of a target, which is added if there is none.
    fn edit(&mut self, service: &Name, endpoint: Endpoint, target: Target, edit: impl FnOnce(&mut Listing)) {
        let key = (endpoint, target);
        let known = self.services.entry(service.clone()).or_default();
        if !known.endpoints.contains_key(&key) {
            known.endpoints.insert(key, Listing::default());
            self.room.take(service.0.clone(), 1);
            self.ips.insert((endpoint.ip, service.clone()), ());
            if let Some(uid) = target {
                self.places.add(uid, endpoint.ip);
            }
        }
        let remembered = &mut self.remembered;
        known.edit(&key, |listing| {
            if !listing.is_current() {
                ungroup(remembered, service, &(listing.used, endpoint, target));
            }
            edit(listing);
            if !listing.is_current() {
                let remembered = remembered.entry(service.clone()).or_default();
                remembered.insert((listing.used, endpoint, target));
            }
        });
    }

    fn replace(&mut self, now: Duration, name: &Name, slice: Option<Slice>, touched: &mut Touched) {
        let known = self.slices.get(name).map(Box::as_ref);
        if known == slice.as_ref() && !self.left_out.all.contains(name) {
            return;
        }
        let before = self.slices.remove(name).filter(|before| !self.was_left_out(before, touched));
        let before = before.as_deref();
        let mut gone = before.and_then(|before| SlicePart::missing_in(before, slice.as_ref()));
        let mut new = slice.as_ref().and_then(|slice| SlicePart::missing_in(slice, before));
        if let Some(slice) = &slice
            && let Some(new) = new.take_if(|new| slice.partial || !self.has_room(slice, new))
        {
            self.left_out.add(name, [new.service.clone()], slice.endpoints.iter().map(|shown| shown.ip));
            self.touch_all(slice, touched);
            gone = before.and_then(SlicePart::whole);
        }
        // Before it is listed anew: what slices called a port before does not count.
        if let Some(gone) = &gone {
            self.unlist(now, gone, touched);
        }
        if let Some(new) = &new {
            self.list(new, touched);
        }
        if let Some(gone) = &gone {
            self.drop_surplus(gone.service, touched);
        }
        self.slices.extend(slice.map(|slice| (name.clone(), slice.into())));
    }

    /// Removes a slice that was left out; false if it was not left out.
    fn was_left_out(&mut self, slice: &Slice, touched: &mut Touched) -> bool {
        let ips = slice.endpoints.iter().map(|shown| shown.ip);
        let left_out = self.left_out.remove(&slice.name, slice.service.clone(), ips);
        if left_out {
            self.touch_all(slice, touched);
        }
        left_out
    }

    fn touch_all(&self, slice: &Slice, touched: &mut Touched) {
        let Some(service) = &slice.service else { return };
        let known = self.endpoints_of(service).map(|(endpoint, _)| endpoint.ip);
        let ips = known.chain(slice.endpoints.iter().map(|shown| shown.ip));
        touched.pairs.extend(ips.map(|ip| (service.clone(), ip)));
    }

    fn has_room(&self, slice: &Slice, new: &SlicePart<'_>) -> bool {
        let all = slice.endpoints.len() * slice.ports.len();
        if all > OF_ONE || self.room.admits(&new.service.0, all) {
            return all <= OF_ONE;
        }
        let known = self.services.get(new.service);
        let is_new =
            |endpoint, target| known.is_none_or(|known| !known.endpoints.contains_key(&(endpoint, target)));
        let new_ones = new.named().filter(|(endpoint, shown, _)| is_new(*endpoint, shown.target));
        self.room.admits(&new.service.0, new_ones.count())
    }

    fn list(&mut self, part: &SlicePart<'_>, touched: &mut Touched) {
        let service = part.service;
        for (endpoint, shown, port) in part.named() {
            self.edit(service, endpoint, shown.target, |listing| {
                listing.add(port.name, shown.ready, part.slice.foreign);
            });
        }
        if part.slice.foreign && part.endpoints.iter().any(|shown| shown.target.is_some()) {
            touched.shows_writer.insert(service.clone());
        }
        for namespace in &part.slice.namespaces {
            if self.name_namespace(service, namespace) {
                touched.shows_writer.insert(service.clone());
            }
        }
        for shown in &part.endpoints {
            touched.add(service, shown.ip, shown.target);
        }
    }

    fn unlist(&mut self, now: Duration, part: &SlicePart<'_>, touched: &mut Touched) {
        for (endpoint, shown, _) in part.named() {
            self.edit(part.service, endpoint, shown.target, |listing| listing.take_away(now, shown.ready));
        }
        for shown in &part.endpoints {
            touched.add(part.service, shown.ip, shown.target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::listing;
    use crate::state::MEMORY;

    #[test]
    fn a_namespace_fills_at_most_half_of_the_index_and_gets_room_that_is_given_back() {
        let mut endpoint_index = EndpointIndex::default();
        endpoint_index.room.take("others".into(), OF_ALL - 8);
        let mut now = Duration::from_secs(1);
        let mut list = |namespace: &str, name: &str, endpoints: u8| {
            let name = (namespace.into(), name.into());
            let ips = (1..=endpoints).map(|last| Addr::v4([10, 0, 0, last]));
            endpoint_index.set(now, &name, Some(listing(&name, ips)));
            endpoint_index.leaves_out(&name)
        };
        assert!(list("flood", "a", 9));
        assert!(!list("flood", "a", 4));
        assert!(!list("flood", "a", 4), "what is listed already takes no more room");
        assert!(list("flood", "b", 1));
        assert!(!list("shop", "web", 2));
        endpoint_index.set(now, &("flood".into(), "a".into()), None);
        endpoint_index.set(now, &("shop".into(), "web".into()), None);
        assert!(endpoint_index.left_out.all.contains(&("flood".into(), "b".into())));
        endpoint_index.retry(now);
        assert!(endpoint_index.left_out.all.contains(&("flood".into(), "b".into())));
        now += MEMORY * 2;
        endpoint_index.expire(now);
        endpoint_index.retry(now);
        assert!(!endpoint_index.left_out.all.contains(&("flood".into(), "b".into())));
    }
}
