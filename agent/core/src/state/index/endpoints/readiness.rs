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
        self.ready_after(now, service, None).collect()
    }

    /// Those of these IPs that are greater than another one, or all, in ascending order.
    pub(in crate::state) fn ready_after(
        &self,
        now: Duration,
        service: &Name,
        ip: Option<Addr>,
    ) -> impl Iterator<Item = Addr> {
        let endpoints = self.services.get(service).into_iter();
        let endpoints = endpoints.flat_map(move |endpoints| endpoints.after(ip));
        let is_ready = move |listing: &Listing| listing.is_recently_ready(now);
        let mut last = None;
        let ready = endpoints.filter(move |(_, targets)| targets.values().any(is_ready));
        ready.map(|(endpoint, _)| endpoint.ip).filter(move |ip| last.replace(*ip) != Some(*ip))
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

    /// True if a slice that the `EndpointSlice` controller did not write lists the IP for the Service, or did recently.
    #[must_use]
    pub fn has_foreign(&self, service: &Name, ip: Addr) -> bool {
        let mut targets = self.at(service, ip).flat_map(|(_, targets)| targets.values());
        targets.any(Listing::is_foreign)
    }

    /// Whether a slice of the Service lists a pod at the IP now.
    #[must_use]
    pub fn lists(&self, service: &Name, ip: Addr, uid: Uid) -> bool {
        let mut targets = self.at(service, ip).filter_map(|(_, targets)| targets.get(Some(uid)));
        targets.any(Listing::is_current)
    }
}
