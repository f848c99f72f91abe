//! How many more endpoints of a Service may be denied without a second list.

use super::taken::Taken;
use crate::facts::Name;
use crate::state::index::ClusterIndex;
use epguard_common::Addr;
use std::collections::BTreeSet;
use std::time::Duration;

/// The room of one Service.
pub(in crate::state) struct Room<'a> {
    cluster: &'a ClusterIndex,
    now: Duration,
    service: &'a Name,
    /// IPs of those that take room and were not ready recently: they take none any more. Known once there is no other place, since
    /// that is work and seldom needed.
    idle: Option<BTreeSet<Addr>>,
    /// The IP of the last endpoint, and whether it was ready recently: many endpoints may be at one.
    looked_at: (Option<Addr>, bool),
    /// How many IPs that were ready recently are found so far, and the last of them. No more are searched than needed.
    ready: (usize, Option<Addr>),
}

impl<'a> Room<'a> {
    /// The room of a Service before anything takes it.
    pub(in crate::state) const fn new(cluster: &'a ClusterIndex, now: Duration, service: &'a Name) -> Self {
        Self {
            cluster,
            now,
            service,
            idle: None,
            looked_at: (None, false),
            ready: (0, None),
        }
    }

    /// True if an endpoint may be denied beside those that are. An endpoint that was not ready recently takes no place.
    pub(in crate::state) fn fits(&mut self, ip: Addr, taken: &Taken) -> bool {
        if self.looked_at.0 != Some(ip) {
            self.looked_at = (Some(ip), self.was_ready(ip));
        }
        if !self.looked_at.1 {
            self.idle.iter_mut().for_each(|idle| {
                idle.insert(ip);
            });
            return true;
        }
        taken.has(ip) || self.has_place(taken) || self.find_idle(taken) && self.has_place(taken)
    }

    fn has_place(&mut self, taken: &Taken) -> bool {
        let idle = self.idle.iter().flatten().filter(|ip| taken.has(**ip)).count();
        let denied = taken.ips() - idle;
        denied == 0 || self.were_ready(2 * (denied + 1))
    }

    /// True if that found an IP.
    fn find_idle(&mut self, taken: &Taken) -> bool {
        if self.idle.is_some() {
            return false;
        }
        let mut idle = taken.all_ips();
        idle.retain(|ip| !self.was_ready(*ip));
        let found = !idle.is_empty();
        self.idle = Some(idle);
        found
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
