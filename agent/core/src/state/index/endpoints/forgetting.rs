//! Removal of endpoints that no slice lists any more.

use super::service_endpoints::Endpoints;
use super::{Endpoint, EndpointIndex, MAX_REMEMBERED, MEMORY, Target, Touched};
use crate::facts::Name;
use crate::state::index::moment::Moment;
use epguard_common::{Addr, Uid};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let is_old = |used: Moment| now.saturating_sub(used.into()) > MEMORY;
        let mut touched = Touched::default();
        let mut places = BTreeSet::new();
        for service in self.remembered.due(is_old) {
            let mut gone = Vec::new();
            while let Some((_, endpoint, target)) = self.oldest(&service).filter(|(used, ..)| is_old(*used)) {
                self.remembered.remove(&service, endpoint, target);
                gone.push((endpoint, target));
            }
            places.append(&mut self.forget(&service, gone, &mut touched));
        }
        self.forget_places(&places);
        touched
    }

    /// Removes the oldest endpoints of a Service that no slice lists, beyond [`MAX_REMEMBERED`].
    pub(in crate::state) fn drop_surplus(&mut self, service: &Name, touched: &mut Touched) {
        let mut gone = Vec::new();
        while self.remembered.count(service) > MAX_REMEMBERED
            && let Some((_, endpoint, target)) = self.oldest(service)
        {
            self.remembered.remove(service, endpoint, target);
            gone.push((endpoint, target));
        }
        let places = self.forget(service, gone, touched);
        self.forget_places(&places);
    }

    /// The endpoint of a Service that was not used for the longest time, of those that no slice lists.
    fn oldest(&mut self, service: &Name) -> Option<(Moment, Endpoint, Target)> {
        loop {
            let (noted, endpoint, target) = self.remembered.oldest(service)?;
            let used = self.used(service, &endpoint, target).unwrap_or(noted);
            if used <= noted {
                return Some((noted, endpoint, target));
            }
            // A packet has hit it since.
            self.remembered.add(service, used, endpoint, target);
        }
    }

    fn used(&self, service: &Name, endpoint: &Endpoint, target: Target) -> Option<Moment> {
        Some(self.services.get(service)?.get(endpoint, target)?.used())
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
