//! The endpoints that packets are sent to, or were recently.

use super::{EndpointIndex, Listing};
use crate::facts::Name;
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;
use std::time::Duration;

impl EndpointIndex {
    /// The IPs of a Service that were ready at any time in the last [`RECENTLY`](super::RECENTLY).
    #[must_use]
    pub fn recently_ready(&self, now: Duration, service: &Name) -> BTreeSet<Addr> {
        let is_ready = |listing: &Listing| listing.is_recently_ready(now);
        let ready = self
            .of(service)
            .filter(|(_, targets)| targets.values().any(is_ready));
        ready.map(|(endpoint, _)| endpoint.ip).collect()
    }

    /// The next of these IPs after another one, in ascending order.
    #[must_use]
    pub fn next_ready(&self, now: Duration, service: &Name, after: Option<Addr>) -> Option<Addr> {
        let mut endpoints = self.services.get(service)?.after(after);
        let is_ready = |listing: &Listing| listing.is_recently_ready(now);
        let (endpoint, _) = endpoints.find(|(_, targets)| targets.values().any(is_ready))?;
        Some(endpoint.ip)
    }

    /// True if an IP of a Service was ready then.
    #[must_use]
    pub fn was_ready(&self, now: Duration, service: &Name, ip: Addr) -> bool {
        let mut listings = self.at(service, ip).flat_map(|(_, targets)| targets.values());
        listings.any(|listing| listing.is_recently_ready(now))
    }

    /// Whether a slice of the Service lists the IP now.
    #[must_use]
    pub fn is_listed(&self, service: &Name, ip: Addr) -> bool {
        let mut targets = self.at(service, ip).flat_map(|(_, targets)| targets.values());
        targets.any(Listing::is_current)
    }

    /// Whether a slice of the Service lists a pod at the IP now.
    #[must_use]
    pub fn lists(&self, service: &Name, ip: Addr, uid: Uid) -> bool {
        let mut targets = self
            .at(service, ip)
            .filter_map(|(_, targets)| targets.get(Some(uid)));
        targets.any(Listing::is_current)
    }
}
