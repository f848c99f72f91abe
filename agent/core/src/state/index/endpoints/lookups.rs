//! The look-ups of the index of endpoints: by Service, by IP, by pod.

use super::endpoint::{Endpoints, after, entries_at, targets_at};
use super::{Endpoint, EndpointIndex, Listing, Target, Targets};
use crate::facts::{ObjectName, Text};
use epguard_common::{Addr, Uid};
use itertools::Itertools as _;
use std::collections::BTreeSet;
use std::time::Duration;

impl EndpointIndex {
    /// The endpoints of a Service at an IP, with all targets named behind them.
    pub(crate) fn endpoints_at(
        &self,
        service: &ObjectName,
        ip: Addr,
    ) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
        self.endpoints(service)
            .flat_map(move |endpoints| entries_at(endpoints, ip))
    }

    /// Every target that a Service names at an IP, on any port.
    pub(crate) fn targets_at(
        &self,
        service: &ObjectName,
        ip: Addr,
    ) -> impl Iterator<Item = (Target, &Listing)> {
        self.endpoints(service)
            .flat_map(move |endpoints| targets_at(endpoints, ip))
    }

    /// How many they are: a pod counts once for each port.
    pub(crate) fn count_at(&self, service: &ObjectName, ip: Addr) -> usize {
        self.ips
            .get(&(ip, service.clone()))
            .map_or(0, |targets| *targets as usize)
    }

    /// All targets named behind a socket of a Service.
    pub(crate) fn targets<'a>(
        &'a self,
        service: &ObjectName,
        endpoint: &'a Endpoint,
    ) -> Option<Targets<'a>> {
        Some(Targets {
            of: &self.services.get(service)?.endpoints,
            endpoint,
        })
    }

    /// All sockets of a Service.
    pub fn endpoints_of(
        &self,
        service: &ObjectName,
    ) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
        self.endpoints(service)
            .flat_map(|endpoints| after(endpoints, None))
    }

    fn endpoints(&self, service: &ObjectName) -> impl Iterator<Item = &Endpoints> {
        self.services
            .get(service)
            .into_iter()
            .map(|known| &known.endpoints)
    }

    /// True if a Service has more IPs than this.
    pub(crate) fn has_more_ips(&self, service: &ObjectName, than: usize) -> bool {
        let ips = self.endpoints_of(service).map(|(endpoint, _)| endpoint.ip);
        ips.dedup().nth(than).is_some()
    }

    /// Where a pod is, or was, listed.
    pub fn of_pod(&self, uid: Uid) -> impl Iterator<Item = (&ObjectName, Addr)> {
        let places = self
            .places
            .ips(uid)
            .flat_map(move |ip| self.services_at(ip).map(move |service| (service, ip)));
        places.filter(move |(service, ip)| self.names(service, *ip, uid))
    }

    /// The Services that list a pod, or did recently.
    pub fn services_of_pod(&self, uid: Uid) -> BTreeSet<ObjectName> {
        self.of_pod(uid)
            .map(|(service, _)| service.clone())
            .collect()
    }

    /// Services that list an IP, or listed it recently.
    pub fn services_at(&self, ip: Addr) -> impl Iterator<Item = &ObjectName> {
        self.services_from(ip, ObjectName::default())
    }

    /// The same from this name on, ascending.
    pub(crate) fn services_from(
        &self,
        ip: Addr,
        first: ObjectName,
    ) -> impl Iterator<Item = &ObjectName> {
        let from = self.ips.from((ip, first)).map(|(pair, _)| pair);
        from.take_while(move |(own, _)| *own == ip)
            .map(|(_, service)| service)
    }

    /// True if any Service lists the pod, or listed it recently.
    pub fn knows(&self, uid: Uid) -> bool {
        self.places.knows(uid)
    }

    /// True if the Service lists the pod at the IP, or listed it recently.
    pub(crate) fn names(&self, service: &ObjectName, ip: Addr, uid: Uid) -> bool {
        self.targets_at(service, ip)
            .any(|(target, _)| target == Some(uid))
    }

    /// Namespaces of the pods that slices of a Service name, or named while the Service had
    /// endpoints.
    pub(crate) fn namespaces_of(&self, service: &ObjectName) -> &[Text] {
        self.services
            .get(service)
            .map_or(&[], |known| &known.namespaces)
    }

    /// Services whose slices name pods of this namespace, which is not their own.
    pub(crate) fn guests_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectName> {
        self.guests.get(namespace).into_iter().flatten()
    }

    /// True if another writer than the `EndpointSlice` controller lists pods of the Service, or did
    /// recently.
    pub(crate) fn has_other_writer(&self, service: &ObjectName) -> bool {
        self.services
            .get(service)
            .is_some_and(|known| known.foreign > 0)
    }

    /// The IPs of a Service that were ready at any time in the last
    /// [`RECENTLY`](super::endpoint::RECENTLY), in ascending order; only those that are greater
    /// than `ip`, if there is one.
    pub(crate) fn ready_after(
        &self,
        now: Duration,
        service: &ObjectName,
        ip: Option<Addr>,
    ) -> impl Iterator<Item = Addr> {
        let endpoints = self
            .endpoints(service)
            .flat_map(move |endpoints| after(endpoints, ip));
        let is_ready = move |listing: &Listing| listing.is_recently_ready(now);
        let ready = endpoints.filter(move |(_, targets)| targets.values().any(is_ready));
        ready.map(|(endpoint, _)| endpoint.ip).dedup()
    }

    /// True if an IP of a Service was ready then.
    pub(crate) fn was_ready(&self, now: Duration, service: &ObjectName, ip: Addr) -> bool {
        self.targets_at(service, ip)
            .any(|(_, listing)| listing.is_recently_ready(now))
    }

    /// Whether a slice of the Service lists a pod at the IP now.
    pub(crate) fn lists(&self, service: &ObjectName, ip: Addr, uid: Uid) -> bool {
        let mut targets = self.targets_at(service, ip);
        targets.any(|(target, listing)| target == Some(uid) && listing.is_current())
    }

    /// True if a slice of the Service was left out, or read in part: it may list any pod.
    pub(crate) fn leaves_out(&self, service: &ObjectName) -> bool {
        self.left_out.keys.contains_key(service)
    }
}
