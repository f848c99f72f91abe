//! Removal of endpoints that no slice lists any more.

use super::endpoint_index::Touched;
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
    used: BTreeMap<(Endpoint, Target), Duration>,
    oldest: BTreeSet<(Duration, Endpoint, Target)>,
}

impl Remembered {
    pub(super) fn add(&mut self, service: &Name, now: Duration, endpoint: Endpoint, target: Target) {
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
}

impl Absent {
    fn set(&mut self, used: Duration, endpoint: Endpoint, target: Target) {
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
        let is_old = |used: Duration| now.saturating_sub(used) > MEMORY;
        let absent = self.remembered.0.iter();
        let due = absent.filter(|(_, absent)| absent.oldest.first().is_some_and(|(used, ..)| is_old(*used)));
        let due: Vec<Name> = due.map(|(service, _)| service.clone()).collect();
        let mut touched = Touched::default();
        for service in due {
            while let Some((_, endpoint, target)) = self.oldest(&service).filter(|(used, ..)| is_old(*used)) {
                self.drop_endpoint(&service, endpoint, target, &mut touched);
            }
        }
        touched
    }

    /// Removes the oldest of the Service's endpoints beyond [`MAX_REMEMBERED`].
    pub(super) fn drop_surplus(&mut self, service: &Name, touched: &mut Touched) {
        let count = |index: &Self| {
            index
                .remembered
                .0
                .get(service)
                .map_or(0, |absent| absent.used.len())
        };
        while count(self) > MAX_REMEMBERED
            && let Some((_, endpoint, target)) = self.oldest(service)
        {
            self.drop_endpoint(service, endpoint, target, touched);
        }
    }

    /// The endpoint of a Service that was not used for the longest time, of those that no slice lists.
    fn oldest(&mut self, service: &Name) -> Option<(Duration, Endpoint, Target)> {
        loop {
            let (noted, endpoint, target) = *self.remembered.0.get(service)?.oldest.first()?;
            let used = self.used(service, &endpoint, &target).unwrap_or(noted);
            if used <= noted {
                return Some((noted, endpoint, target));
            }
            // A packet has hit it since.
            self.remembered.0.get_mut(service)?.set(used, endpoint, target);
        }
    }

    fn used(&self, service: &Name, endpoint: &Endpoint, target: &Target) -> Option<Duration> {
        Some(self.targets(service, endpoint)?.get(target)?.used())
    }

    fn drop_endpoint(&mut self, service: &Name, endpoint: Endpoint, target: Target, touched: &mut Touched) {
        self.remembered.remove(service, endpoint, target);
        if let Some(endpoints) = self.services.get_mut(service) {
            if let Some(targets) = endpoints.get_mut(&endpoint) {
                if targets.remove(&target).is_some() {
                    self.room.give_back(&service.0, 1);
                }
                if targets.is_empty() {
                    endpoints.remove(&endpoint);
                }
            }
            if endpoints.is_empty() {
                self.services.remove(service);
            }
        }
        if let Some(uid) = target {
            self.forget_pod(uid, service, endpoint.ip);
        }
        self.forget_ip(service, endpoint.ip);
        touched.add(service, endpoint, target);
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
