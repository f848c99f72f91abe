//! Removal of endpoints that no slice lists any more.

use super::endpoints::Endpoints;
use super::moment::Moment;
use super::touched::Touched;
use super::{Endpoint, EndpointIndex, MAX_REMEMBERED, MEMORY, Target};
use crate::facts::Name;
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The endpoints that no slice lists now, by Service.
#[derive(Debug, Clone, Default)]
pub(super) struct Remembered(BTreeMap<Name, Absent>);

/// Those of one Service, with the time when they were last used. It may be earlier than the truth, never later.
#[derive(Debug, Clone, Default)]
struct Absent {
    used: BTreeMap<(Endpoint, Target), Moment>,
    oldest: BTreeSet<(Moment, Endpoint, Target)>,
}

impl Remembered {
    pub(super) fn add(&mut self, service: &Name, now: Moment, endpoint: Endpoint, target: Target) {
        if !self.0.contains_key(service) {
            self.0.insert(service.clone(), Absent::default());
        }
        if let Some(absent) = self.0.get_mut(service) {
            absent.set(now, endpoint, target);
        }
    }

    pub(super) fn remove(&mut self, service: &Name, endpoint: Endpoint, target: Target) {
        if let Some(absent) = self.0.get_mut(service) {
            absent.remove(endpoint, target);
            if absent.used.is_empty() {
                self.0.remove(service);
            }
        }
    }

    fn count(&self, service: &Name) -> usize {
        self.0.get(service).map_or(0, |absent| absent.used.len())
    }
}

impl Absent {
    fn set(&mut self, used: Moment, endpoint: Endpoint, target: Target) {
        self.remove(endpoint, target);
        self.used.insert((endpoint, target), used);
        self.oldest.insert((used, endpoint, target));
    }

    fn remove(&mut self, endpoint: Endpoint, target: Target) {
        if let Some(used) = self.used.remove(&(endpoint, target)) {
            self.oldest.remove(&(used, endpoint, target));
        }
    }
}

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let is_old = |used: Moment| now.saturating_sub(used.into()) > MEMORY;
        let absent = self.remembered.0.iter();
        let due = absent.filter(|(_, absent)| absent.oldest.first().is_some_and(|(used, ..)| is_old(*used)));
        let due: Vec<Name> = due.map(|(service, _)| service.clone()).collect();
        let mut touched = Touched::default();
        for service in due {
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
            let (noted, endpoint, target) = *self.remembered.0.get(service)?.oldest.first()?;
            let used = self.used(service, &endpoint, target).unwrap_or(noted);
            if used <= noted {
                return Some((noted, endpoint, target));
            }
            // A packet has hit it since.
            self.remembered.0.get_mut(service)?.set(used, endpoint, target);
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
