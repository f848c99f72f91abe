//! The memory of endpoints that no slice lists any more: how long it keeps them, and how many.

use super::service_endpoints::Endpoints;
use super::{Endpoint, EndpointIndex, Target, Touched};
use crate::facts::Name;
use crate::state::index::Moment;
use epguard_common::{Addr, Uid};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

/// How long an endpoint is kept after the last slice that listed it and the last packet to it.
pub const MEMORY: Duration = Duration::from_mins(10);

/// Endpoints kept per Service beyond those that are listed; the oldest go first.
pub const MAX_REMEMBERED: usize = 4096;

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let is_old = |used: Moment| now.saturating_sub(used.into()) > MEMORY;
        let due = self.remembered.firsts().filter(|(_, (place, ..))| is_old(*place));
        let due: Vec<Name> = due.map(|(service, _)| service.clone()).collect();
        let mut touched = Touched::default();
        let mut places = BTreeSet::new();
        for service in due {
            let gone = std::iter::from_fn(|| self.take_oldest(&service, is_old)).collect();
            places.append(&mut self.forget(&service, gone, &mut touched));
        }
        self.forget_places(&places);
        touched
    }

    /// Removes the oldest endpoints of a Service that no slice lists, beyond [`MAX_REMEMBERED`].
    pub(in crate::state) fn drop_surplus(&mut self, service: &Name, touched: &mut Touched) {
        let surplus = self.remembered.count(service).saturating_sub(MAX_REMEMBERED);
        let gone = std::iter::from_fn(|| self.take_oldest(service, |_| true)).take(surplus).collect();
        let places = self.forget(service, gone, touched);
        self.forget_places(&places);
    }

    /// Takes out the endpoint of a Service that was not used for the longest time, of those that no slice lists, if that time is due.
    fn take_oldest(&mut self, service: &Name, is_due: impl Fn(Moment) -> bool) -> Option<(Endpoint, Target)> {
        loop {
            let oldest = *self.remembered.get(service).next().filter(|(place, ..)| is_due(*place))?;
            self.remembered.remove(service, &oldest);
            let (place, endpoint, target) = oldest;
            let endpoints = self.services.get_mut(service);
            let listing = endpoints.and_then(|endpoints| endpoints.get_mut(&endpoint, target));
            let Some(listing) = listing.filter(|listing| listing.used() > place) else {
                return Some((endpoint, target));
            };
            // A packet has hit it since.
            listing.put_in_place();
            self.remembered.insert(service.clone(), (listing.place(), endpoint, target));
        }
    }

    /// Removes targets of a Service. Returns where it listed pods: for [`EndpointIndex::forget_places`].
    fn forget(
        &mut self,
        service: &Name,
        gone: Vec<(Endpoint, Target)>,
        touched: &mut Touched,
    ) -> BTreeSet<(Addr, Uid)> {
        if let Some(endpoints) = self.services.get_mut(service) {
            self.room.give_back(&service.0, endpoints.remove(&gone));
        }
        if self.services.get(service).is_some_and(Endpoints::is_empty) {
            self.services.remove(service);
        }
        let mut places = BTreeSet::new();
        for (endpoint, target) in gone {
            if self.at(service, endpoint.ip).next().is_none() {
                self.ips.remove(&(endpoint.ip, service.clone()));
            }
            places.extend(target.map(|uid| (endpoint.ip, uid)));
            touched.add(service, endpoint.ip, target);
        }
        places
    }

    /// Removes the places where no Service lists the pod any more. Many Services may list one IP, so all pods that were
    /// there are looked for at once.
    fn forget_places(&mut self, places: &BTreeSet<(Addr, Uid)>) {
        let mut named = (None, HashSet::new());
        for (ip, uid) in places {
            if named.0 != Some(*ip) {
                named = (Some(*ip), self.pods_at(*ip).collect());
            }
            if !named.1.contains(uid) {
                self.places.remove(*uid, *ip);
            }
        }
    }

    /// The pods that any Service lists at the IP, or listed recently.
    fn pods_at(&self, ip: Addr) -> impl Iterator<Item = Uid> {
        let endpoints = self.services_at(ip).flat_map(move |service| self.at(service, ip));
        endpoints.flat_map(|(_, targets)| targets.keys()).flatten()
    }
}
