//! Removal of endpoints that no slice lists any more.

use super::endpoints::Endpoints;
use super::moment::Moment;
use super::touched::Touched;
use super::{Endpoint, EndpointIndex, MAX_REMEMBERED, MEMORY, Target};
use crate::facts::Name;
use epguard_common::{Addr, Uid};
use std::time::Duration;

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let is_old = |used: Moment| now.saturating_sub(used.into()) > MEMORY;
        let mut touched = Touched::default();
        for service in self.remembered.due(is_old) {
            let mut gone = Vec::new();
            while let Some((_, endpoint, target)) = self.oldest(&service).filter(|(used, ..)| is_old(*used)) {
                self.remembered.remove(&service, endpoint, target);
                gone.push((endpoint, target));
            }
            self.forget(&service, gone, &mut touched);
        }
        touched
    }

    /// Removes the oldest endpoints of a Service that no slice lists, beyond [`MAX_REMEMBERED`].
    pub(super) fn drop_surplus(&mut self, service: &Name, touched: &mut Touched) {
        let mut gone = Vec::new();
        while self.remembered.count(service) > MAX_REMEMBERED
            && let Some((_, endpoint, target)) = self.oldest(service)
        {
            self.remembered.remove(service, endpoint, target);
            gone.push((endpoint, target));
        }
        self.forget(service, gone, touched);
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

    /// Removes targets of a Service, and all that refers to them.
    fn forget(&mut self, service: &Name, gone: Vec<(Endpoint, Target)>, touched: &mut Touched) {
        if let Some(endpoints) = self.services.get_mut(service) {
            self.room.give_back(&service.0, endpoints.remove(&gone));
        }
        if self.services.get(service).is_some_and(Endpoints::is_empty) {
            self.services.remove(service);
        }
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
