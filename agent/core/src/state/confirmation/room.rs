//! How many more endpoints of a Service may be denied without a second list.

use crate::facts::Name;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use epguard_common::Addr;
use std::collections::BTreeSet;
use std::time::Duration;

/// The room of one Service.
pub(in crate::state) struct Room<'a> {
    cluster: &'a ClusterIndex,
    now: Duration,
    service: &'a Name,
    /// IPs whose denials are carried out.
    denied: BTreeSet<Addr>,
    /// Whether those that were not ready recently are removed from these. That is work, and seldom needed.
    is_exact: bool,
    /// The IP of the last endpoint, and whether it was ready recently: many endpoints may be at one.
    looked_at: (Option<Addr>, bool),
    /// How many IPs that were ready recently are found so far, and the last of them. No more are searched than needed.
    ready: (usize, Option<Addr>),
}

impl<'a> Room<'a> {
    /// The room beside the endpoints whose denials are carried out and are not plain.
    pub(in crate::state) fn new(
        cluster: &'a ClusterIndex,
        now: Duration,
        service: &'a Name,
        carried_out: &BTreeSet<Endpoint>,
    ) -> Self {
        Self {
            cluster,
            now,
            service,
            denied: carried_out.iter().map(|endpoint| endpoint.ip).collect(),
            is_exact: false,
            looked_at: (None, false),
            ready: (0, None),
        }
    }

    /// True if an endpoint may be denied, which then takes a place. An endpoint that was not ready recently takes none.
    pub(in crate::state) fn take(&mut self, ip: Addr) -> bool {
        if self.looked_at.0 != Some(ip) {
            self.looked_at = (Some(ip), self.was_ready(ip));
        }
        if !self.looked_at.1 || self.denied.contains(&ip) {
            return true;
        }
        let fits = self.has_place() || self.make_exact() && self.has_place();
        if fits {
            self.denied.insert(ip);
        }
        fits
    }

    fn has_place(&mut self) -> bool {
        self.denied.is_empty() || self.were_ready(2 * (self.denied.len() + 1))
    }

    /// True if that removed an IP.
    fn make_exact(&mut self) -> bool {
        if self.is_exact {
            return false;
        }
        let mut denied = std::mem::take(&mut self.denied);
        let before = denied.len();
        denied.retain(|ip| self.was_ready(*ip));
        self.denied = denied;
        self.is_exact = true;
        self.denied.len() < before
    }

    fn was_ready(&self, ip: Addr) -> bool {
        self.cluster.endpoint_index.was_ready(self.now, self.service, ip)
    }

    /// True if at least so many IPs were ready recently.
    fn were_ready(&mut self, wanted: usize) -> bool {
        let (found, last) = &mut self.ready;
        let rest = wanted.saturating_sub(*found);
        let index = &self.cluster.endpoint_index;
        for ip in index.ready_after(self.now, self.service, *last).take(rest) {
            (*found, *last) = (*found + 1, Some(ip));
        }
        *found >= wanted
    }
}

/// Half of the endpoints, at least one.
pub(in crate::state) fn allowance(ready: usize) -> usize {
    (ready / 2).max(1)
}
