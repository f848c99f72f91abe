//! How many more endpoints of a Service may be denied without a second list.

use super::{ClusterIndex, Endpoint};
use crate::facts::Name;
use epguard_common::Addr;
use std::collections::BTreeSet;
use std::time::Duration;

/// The room of one Service.
pub(super) struct Room<'a> {
    cluster: &'a ClusterIndex,
    now: Duration,
    service: &'a Name,
    denied: BTreeSet<Addr>,
    /// The IP of the last endpoint, and whether it was ready recently: many endpoints may be at one.
    looked_at: (Option<Addr>, bool),
    /// How many IPs that were ready recently are found so far, and the last of them. No more are searched than needed.
    ready: (usize, Option<Addr>),
}

impl<'a> Room<'a> {
    /// The room beside the endpoints whose denials are carried out and are not plain.
    pub(super) fn new(
        cluster: &'a ClusterIndex,
        now: Duration,
        service: &'a Name,
        carried_out: &BTreeSet<Endpoint>,
    ) -> Self {
        let ips: BTreeSet<Addr> = carried_out.iter().map(|endpoint| endpoint.ip).collect();
        let ready = |ip: &Addr| cluster.endpoint_index.was_ready(now, service, *ip);
        let denied = ips.into_iter().filter(ready).collect();
        Self {
            cluster,
            now,
            service,
            denied,
            looked_at: (None, false),
            ready: (0, None),
        }
    }

    /// True if an endpoint may be denied, which then takes a place. An endpoint that was not ready recently takes none.
    pub(super) fn take(&mut self, ip: Addr) -> bool {
        if self.looked_at.0 != Some(ip) {
            let was_ready = self.cluster.endpoint_index.was_ready(self.now, self.service, ip);
            self.looked_at = (Some(ip), was_ready);
        }
        if !self.looked_at.1 || self.denied.contains(&ip) {
            return true;
        }
        let fits = self.denied.is_empty() || self.were_ready(2 * (self.denied.len() + 1));
        if fits {
            self.denied.insert(ip);
        }
        fits
    }

    /// True if at least so many IPs were ready recently.
    fn were_ready(&mut self, wanted: usize) -> bool {
        let (found, last) = &mut self.ready;
        while *found < wanted {
            let Some(ip) = self
                .cluster
                .endpoint_index
                .next_ready(self.now, self.service, *last)
            else {
                return false;
            };
            (*found, *last) = (*found + 1, Some(ip));
        }
        true
    }
}

/// Half of the endpoints, at least one.
pub(super) fn allowance(ready: usize) -> usize {
    (ready / 2).max(1)
}
