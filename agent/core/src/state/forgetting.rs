//! Removal of endpoints that no slice lists any more.

use super::endpoint_index::Touched;
use super::{EndpointIndex, MAX_REMEMBERED, MEMORY, Socket, Target};
use crate::facts::Name;
use epguard_common::{Addr, Uid};
use std::time::Duration;

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let mut stale: Vec<(Name, Socket, Target)> = Vec::new();
        for (service, sockets) in &self.services {
            for (socket, targets) in sockets {
                for (target, listing) in targets {
                    if !listing.is_current() && now.saturating_sub(listing.used()) > MEMORY {
                        stale.push((service.clone(), *socket, *target));
                    }
                }
            }
        }
        let mut touched = Touched::default();
        self.drop_all(stale, &mut touched);
        touched
    }

    pub(super) fn surplus(&self, service: &Name) -> Vec<(Name, Socket, Target)> {
        let Some(sockets) = self.services.get(service) else {
            return Vec::new();
        };
        let mut remembered: Vec<(Duration, Socket, Target)> = sockets
            .iter()
            .flat_map(|(socket, targets)| {
                targets
                    .iter()
                    .map(move |(target, listing)| (socket, target, listing))
            })
            .filter(|(_, _, listing)| !listing.is_current())
            .map(|(socket, target, listing)| (listing.used(), *socket, *target))
            .collect();
        let surplus = remembered.len().saturating_sub(MAX_REMEMBERED);
        remembered.sort_unstable();
        remembered.truncate(surplus);
        remembered
            .into_iter()
            .map(|(_, socket, target)| (service.clone(), socket, target))
            .collect()
    }

    pub(super) fn drop_all(&mut self, stale: Vec<(Name, Socket, Target)>, touched: &mut Touched) {
        for (service, socket, target) in stale {
            let Some(sockets) = self.services.get_mut(&service) else {
                continue;
            };
            if let Some(targets) = sockets.get_mut(&socket) {
                if targets.remove(&target).is_some() {
                    self.room.give_back(&service.0, 1);
                }
                if targets.is_empty() {
                    sockets.remove(&socket);
                }
            }
            if sockets.is_empty() {
                self.services.remove(&service);
            }
            if let Some(uid) = target {
                self.forget_pod(uid, &service, socket.ip);
            }
            self.forget_ip(&service, socket.ip);
            touched.add(&service, socket, target);
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
