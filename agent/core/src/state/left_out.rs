//! `EndpointSlices` for whose endpoints there is no room: nothing is denied of their Services, nor at their IPs.

use super::vips::give_back;
use super::{Listings, State};
use crate::facts::{Name, Slice, named};
use epguard_common::Addr;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Pairs of address and port in one slice. A slice of 30 KB can have a million of them; the controller of Kubernetes writes slices of at
/// most 1,000 addresses.
pub(super) const OF_ONE: usize = 8_192;

/// Endpoints that all Services list, or listed not long ago.
pub(super) const OF_ALL: usize = 80 * OF_ONE;

/// Slices that were not taken in.
#[derive(Debug, Clone, Default)]
pub(super) struct LeftOut {
    slices: BTreeSet<Name>,
    services: HashMap<Name, usize>,
    ips: HashMap<Addr, usize>,
}

impl LeftOut {
    pub(super) fn has(&self, slice: &Name) -> bool {
        self.slices.contains(slice)
    }

    /// A slice has a Service, or there is nothing to list.
    pub(super) fn add(&mut self, slice: &Slice, service: &Name) {
        self.slices.insert(slice.name.clone());
        *self.services.entry(service.clone()).or_default() += 1;
        for endpoint in &slice.endpoints {
            *self.ips.entry(endpoint.ip).or_default() += 1;
        }
    }

    /// False if the slice was taken in.
    pub(super) fn remove(&mut self, slice: &Slice) -> bool {
        let known = self.slices.remove(&slice.name);
        if let Some(service) = slice.service.as_ref().filter(|_| known) {
            give_back(&mut self.services, service);
            let mut ips = slice.endpoints.iter().map(|endpoint| endpoint.ip);
            ips.by_ref().for_each(|ip| give_back(&mut self.ips, &ip));
        }
        known
    }
}

impl Listings {
    /// Whether a slice of the Service was not taken in: it may list anybody.
    #[must_use]
    pub fn leaves_out(&self, service: &Name) -> bool {
        self.left_out.services.contains_key(service)
    }

    /// Whether a slice that was not taken in lists the IP.
    #[must_use]
    pub fn leaves_out_at(&self, ip: Addr) -> bool {
        self.left_out.ips.contains_key(&ip)
    }
}

impl State {
    /// How many `EndpointSlices` and Services there is no room for, by namespace.
    #[must_use]
    pub fn left_out(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        let slices = self.world.listings.left_out.slices.iter();
        for (namespace, _) in slices.chain(self.world.vips.left_out()) {
            *counts.entry(namespace.clone()).or_default() += 1;
        }
        counts
    }

    /// Services with denials of which packets don't show that they are meant, as another Service claims one of their VIPs;
    /// with that other one.
    #[must_use]
    pub fn rivals(&self) -> Vec<(String, String)> {
        let services: BTreeSet<&Name> = self.denials.keys().map(|(service, _)| service).collect();
        let rival = |name: &Name| self.world.vips.rival(self.world.service(name)?);
        let rivals = services.into_iter().filter_map(|name| Some((name, rival(name)?)));
        rivals.map(|(name, rival)| (named(name), named(rival))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::quota::Quota;
    use super::*;
    use crate::facts::{Change, Endpoint, PortName, Protocol, SlicePort};
    use crate::state::MEMORY;
    use std::time::Duration;

    fn slice(namespace: &str, name: &str, endpoints: u8) -> Slice {
        let endpoint = |last| Endpoint {
            ip: Addr::v4([10, 0, 0, last]),
            target: None,
            target_name: None,
            ready: true,
        };
        Slice {
            name: (namespace.into(), name.into()),
            service: Some((namespace.into(), name.into())),
            endpoints: (1..=endpoints).map(endpoint).collect(),
            ports: vec![SlicePort {
                name: PortName::new("http"),
                port: 80,
                protocol: Protocol::Tcp,
            }],
            triggered: None,
        }
    }

    #[test]
    fn a_namespace_fills_half_of_the_room_and_what_is_remembered_counts() {
        let mut listings = Listings {
            room: Quota::of(8),
            ..Listings::default()
        };
        let mut now = Duration::from_secs(1);
        let mut list = |namespace, name, endpoints| {
            listings.apply(now, Change::Applied(slice(namespace, name, endpoints)));
            listings.leaves_out(&(namespace.to_owned(), name.to_owned()))
        };
        assert!(list("flood", "a", 9));
        assert!(!list("flood", "a", 4));
        assert!(
            !list("flood", "a", 4),
            "what is listed already takes no more room"
        );
        assert!(list("flood", "b", 1));
        assert!(!list("shop", "web", 2));
        listings.apply(now, Change::Deleted(slice("flood", "a", 4)));
        listings.apply(now, Change::Reset(vec![slice("flood", "b", 1)]));
        assert!(listings.left_out.has(&("flood".into(), "b".into())));
        now += MEMORY * 2;
        listings.expire(now);
        listings.apply(now, Change::Reset(vec![slice("flood", "b", 1)]));
        assert!(!listings.left_out.has(&("flood".into(), "b".into())));
    }
}
