//! Removal of endpoints that no slice lists any more.

use super::endpoint_index::Touched;
use super::{Endpoint, EndpointIndex, MAX_REMEMBERED, MEMORY, Target};
use crate::facts::Name;
use epguard_common::{Addr, Uid};
use std::time::Duration;

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let mut stale: Vec<(Name, Endpoint, Target)> = Vec::new();
        for (service, endpoints) in &self.services {
            for (endpoint, targets) in endpoints {
                for (target, listing) in targets {
                    if !listing.is_current() && now.saturating_sub(listing.used()) > MEMORY {
                        stale.push((service.clone(), *endpoint, *target));
                    }
                }
            }
        }
        let mut touched = Touched::default();
        self.drop_all(stale, &mut touched);
        touched
    }

    pub(super) fn surplus(&self, service: &Name) -> Vec<(Name, Endpoint, Target)> {
        let Some(endpoints) = self.services.get(service) else {
            return Vec::new();
        };
        let mut absent: Vec<(Duration, Endpoint, Target)> = endpoints
            .iter()
            .flat_map(|(endpoint, targets)| {
                targets
                    .iter()
                    .map(move |(target, listing)| (endpoint, target, listing))
            })
            .filter(|(_, _, listing)| !listing.is_current())
            .map(|(endpoint, target, listing)| (listing.used(), *endpoint, *target))
            .collect();
        let surplus = absent.len().saturating_sub(MAX_REMEMBERED);
        absent.sort_unstable();
        absent.truncate(surplus);
        absent
            .into_iter()
            .map(|(_, endpoint, target)| (service.clone(), endpoint, target))
            .collect()
    }

    pub(super) fn drop_all(&mut self, stale: Vec<(Name, Endpoint, Target)>, touched: &mut Touched) {
        for (service, endpoint, target) in stale {
            let Some(endpoints) = self.services.get_mut(&service) else {
                continue;
            };
            if let Some(targets) = endpoints.get_mut(&endpoint) {
                if targets.remove(&target).is_some() {
                    self.room.give_back(&service.0, 1);
                }
                if targets.is_empty() {
                    endpoints.remove(&endpoint);
                }
            }
            if endpoints.is_empty() {
                self.services.remove(&service);
            }
            if let Some(uid) = target {
                self.forget_pod(uid, &service, endpoint.ip);
            }
            self.forget_ip(&service, endpoint.ip);
            touched.add(&service, endpoint, target);
        }
    }

    fn forget_ip(&mut self, service: &Name, ip: Addr) {
        if self.at(service, ip).next().is_some() {
            return;
        }
        if let Some(services) = self.ips.get_mut(&ip) {
            services.remove(service);
            if services.is_empty() {
                self.ips.remove(&ip);
            }
        }
    }

    fn forget_pod(&mut self, uid: Uid, service: &Name, ip: Addr) {
        let still_named = self
            .at(service, ip)
            .any(|(_, targets)| targets.contains_key(&Some(uid)));
        if still_named {
            return;
        }
        if let Some(places) = self.pods.get_mut(&uid) {
            places.remove(&(service.clone(), ip));
            if places.is_empty() {
                self.pods.remove(&uid);
                self.names.forget(uid);
            }
        }
    }
}
