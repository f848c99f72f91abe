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
        let mut ips = self.ips(service);
        ips.retain(|ip| {
            let mut endpoint_index = self.at(service, *ip).flat_map(|(_, targets)| targets.values());
            endpoint_index.any(|listing| listing.is_recently_ready(now))
        });
        ips
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
