//! Removal of endpoints that no slice lists any more.

use super::endpoint_index::Touched;
use super::endpoints::{Endpoints, Entry};
use super::moment::Moment;
use super::{Endpoint, EndpointIndex, MAX_REMEMBERED, MEMORY, Target};
use crate::facts::Name;
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;
use std::time::Duration;

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let is_stale = |Entry { listing, .. }: &Entry| {
            !listing.is_current() && now.saturating_sub(listing.used().into()) > MEMORY
        };
        let services = self.services.iter_mut();
        let removed = services.map(|(service, endpoints)| (service.clone(), endpoints.remove(is_stale)));
        let removed: Vec<_> = removed.filter(|(_, gone)| !gone.is_empty()).collect();
        let mut touched = Touched::default();
        for (service, gone) in removed {
            self.forget(&service, gone, &mut touched);
        }
        touched
    }

    /// Removes the oldest endpoints of a Service that no slice lists, beyond [`MAX_REMEMBERED`].
    pub(super) fn drop_surplus(&mut self, service: &Name, touched: &mut Touched) {
        let known = self.services.get_mut(service);
        let Some(endpoints) = known.filter(|endpoints| endpoints.len() > MAX_REMEMBERED) else {
            return;
        };
        let absent = endpoints.entries().filter(|entry| !entry.listing.is_current());
        let mut absent: Vec<(Moment, Endpoint, Target)> = absent
            .map(|entry| (entry.listing.used(), entry.endpoint, entry.target))
            .collect();
        let surplus = absent.len().saturating_sub(MAX_REMEMBERED);
        if surplus == 0 {
            return;
        }
        absent.sort_unstable();
        let surplus: BTreeSet<_> = absent[..surplus]
            .iter()
            .map(|(_, endpoint, target)| (*endpoint, *target))
            .collect();
        let gone = endpoints.remove(|entry| surplus.contains(&(entry.endpoint, entry.target)));
        self.forget(service, gone, touched);
    }

    /// Updates all else after targets of a Service were removed.
    fn forget(&mut self, service: &Name, gone: Vec<(Endpoint, Target)>, touched: &mut Touched) {
        if self.services.get(service).is_some_and(Endpoints::is_empty) {
            self.services.remove(service);
        }
        self.room.give_back(&service.0, gone.len());
        for (endpoint, target) in gone {
            if self.at(service, endpoint.ip).next().is_none() {
                self.ips.remove(&(endpoint.ip, service.clone()));
            }
            if let Some(uid) = target {
                self.forget_pod(uid, endpoint.ip);
            }
            touched.add(service, endpoint, target);
        }
    }

    fn forget_pod(&mut self, uid: Uid, ip: Addr) {
        if !self.services_at(ip).any(|service| self.names(service, ip, uid)) {
            self.places.remove(uid, ip);
        }
    }
}
