//! Index of the endpoints that each Service lists, or listed recently: conntrack, proxies and clients keep endpoints
//! longer than slices do.

use super::forgetting::Remembered;
use super::left_out::{self, LeftOut};
use super::quota::Quota;
use super::slice_part::SlicePart;
use super::target_names::TargetNames;
use super::{Endpoint, Listing, Target};
use crate::facts::{Change, Name, Slice};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// How long an endpoint is kept after the last slice that listed it and the last packet to it.
pub const MEMORY: Duration = Duration::from_mins(10);

/// Endpoints kept per Service beyond those that are listed; the oldest go first.
pub const MAX_REMEMBERED: usize = 4096;

/// The endpoints of all Services.
#[derive(Debug, Clone)]
pub struct EndpointIndex {
    pub(super) slices: HashMap<Name, Slice>,
    pub(super) services: HashMap<Name, BTreeMap<Endpoint, BTreeMap<Target, Listing>>>,
    pub(super) pods: HashMap<Uid, BTreeSet<(Name, Addr)>>,
    pub(super) names: TargetNames,
    pub(super) ips: HashMap<Addr, BTreeSet<Name>>,
    /// Those that no slice lists now.
    pub(super) remembered: Remembered,
    /// Quota of targets behind sockets.
    pub(super) room: Quota<String>,
    pub(super) left_out: LeftOut,
}

impl Default for EndpointIndex {
    fn default() -> Self {
        Self {
            slices: HashMap::new(),
            services: HashMap::new(),
            pods: HashMap::new(),
            names: TargetNames::default(),
            ips: HashMap::new(),
            remembered: Remembered::default(),
            room: Quota::of(left_out::OF_ALL),
            left_out: LeftOut::default(),
        }
    }
}

/// The entries that a change of slices touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// (Service, IP) pairs.
    pub pairs: BTreeSet<(Name, Addr)>,
    /// Pods that are named behind them, or were until now.
    pub pods: BTreeSet<Uid>,
}

impl EndpointIndex {
    /// The sockets of a Service at an IP, with all targets named behind them.
    pub fn at(
        &self,
        service: &Name,
        ip: Addr,
    ) -> impl Iterator<Item = (&Endpoint, &BTreeMap<Target, Listing>)> {
        let (first, last) = Endpoint::range_at(ip);
        self.services
            .get(service)
            .into_iter()
            .flat_map(move |endpoints| endpoints.range(first..=last))
    }

    /// All targets named behind a socket of a Service.
    #[must_use]
    pub fn targets(&self, service: &Name, endpoint: &Endpoint) -> Option<&BTreeMap<Target, Listing>> {
        self.services.get(service)?.get(endpoint)
    }

    /// All sockets of a Service.
    pub fn of(&self, service: &Name) -> impl Iterator<Item = (&Endpoint, &BTreeMap<Target, Listing>)> {
        self.services.get(service).into_iter().flatten()
    }

    /// The IPs of a Service.
    #[must_use]
    pub fn ips(&self, service: &Name) -> BTreeSet<Addr> {
        self.services
            .get(service)
            .into_iter()
            .flat_map(|endpoints| endpoints.keys().map(|s| s.ip))
            .collect()
    }

    /// Where a pod is, or was, listed.
    pub fn of_pod(&self, uid: Uid) -> impl Iterator<Item = &(Name, Addr)> {
        self.pods.get(&uid).into_iter().flatten()
    }

    /// Services that list an IP, or listed it recently.
    pub fn services_at(&self, ip: Addr) -> impl Iterator<Item = &Name> {
        self.ips.get(&ip).into_iter().flatten()
    }

    /// True if any Service lists the pod, or listed it recently.
    #[must_use]
    pub fn knows(&self, uid: Uid) -> bool {
        self.pods.contains_key(&uid)
    }

    /// Applies a change from the watch.
    pub fn apply(&mut self, now: Duration, change: Change<Slice>) -> Touched {
        let mut touched = Touched::default();
        match change {
            Change::Applied(slice) => self.replace(now, slice, &mut touched),
            Change::Deleted(slice) => self.delete(now, &slice.name, &mut touched),
            Change::Reset(slices) => {
                let listed: BTreeSet<Name> = slices.iter().map(|slice| slice.name.clone()).collect();
                let gone: Vec<Name> = self
                    .slices
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                for slice in slices {
                    self.replace(now, slice, &mut touched);
                }
                for name in gone {
                    self.delete(now, &name, &mut touched);
                }
            }
        }
        touched
    }

    /// Notes a packet to a denied endpoint: a client still uses the endpoint, so the index keeps it.
    pub fn hit(&mut self, now: Duration, service: &Name, endpoint: &Endpoint) {
        let targets = self
            .services
            .get_mut(service)
            .and_then(|endpoints| endpoints.get_mut(endpoint));
        for listing in targets.into_iter().flat_map(BTreeMap::values_mut) {
            listing.hit = now;
        }
    }

    /// Adds a dead pod at the place where a Service once listed it, in a restore.
    pub fn record(&mut self, now: Duration, service: &Name, endpoint: Endpoint, uid: Uid) {
        let endpoints = self.services.entry(service.clone()).or_default();
        let targets = endpoints.entry(endpoint).or_default();
        let listing = targets.entry(Some(uid)).or_insert_with(|| {
            self.room.take(service.0.clone(), 1);
            self.remembered.add(service, now, endpoint, Some(uid));
            Listing::default()
        });
        listing.last = now;
        self.ips.entry(endpoint.ip).or_default().insert(service.clone());
        let pairs = self.pods.entry(uid).or_default();
        pairs.insert((service.clone(), endpoint.ip));
    }

    fn replace(&mut self, now: Duration, slice: Slice, touched: &mut Touched) {
        if self.slices.get(&slice.name) == Some(&slice) && !self.left_out.has(&slice.name) {
            return;
        }
        let before = self.slices.remove(&slice.name);
        let before = before.filter(|before| !self.was_left_out(before, touched));
        let new = SlicePart::missing_in(&slice, before.as_ref());
        let mut gone = before
            .as_ref()
            .and_then(|before| SlicePart::missing_in(before, Some(&slice)));
        match new {
            Some(new) if self.has_room(&slice, &new) => self.list(&new, touched),
            Some(SlicePart { service, .. }) => {
                self.left_out.add(&slice, service);
                self.touch_all(&slice, touched);
                gone = before.as_ref().and_then(SlicePart::whole);
            }
            None => {}
        }
        if let Some(gone) = gone {
            self.unlist(now, &gone, touched);
        }
        self.slices.insert(slice.name.clone(), slice);
    }

    /// Applies the absence of a slice from a list.
    pub fn forget_slice(&mut self, now: Duration, slice: &Name) -> Touched {
        let mut touched = Touched::default();
        self.delete(now, slice, &mut touched);
        touched
    }

    fn delete(&mut self, now: Duration, slice: &Name, touched: &mut Touched) {
        if let Some(slice) = self.slices.remove(slice)
            && !self.was_left_out(&slice, touched)
            && let Some(whole) = SlicePart::whole(&slice)
        {
            self.unlist(now, &whole, touched);
        }
    }

    /// Removes a slice that was left out; false if it was not left out.
    fn was_left_out(&mut self, slice: &Slice, touched: &mut Touched) -> bool {
        let left_out = self.left_out.remove(slice);
        if left_out {
            self.touch_all(slice, touched);
        }
        left_out
    }

    fn touch_all(&self, slice: &Slice, touched: &mut Touched) {
        let Some(service) = &slice.service else { return };
        let shown = slice.endpoints.iter().map(|shown| shown.ip);
        let ips = self.ips(service).into_iter().chain(shown);
        touched.pairs.extend(ips.map(|ip| (service.clone(), ip)));
    }

    fn has_room(&self, slice: &Slice, new: &SlicePart<'_>) -> bool {
        let known = self.services.get(new.service);
        let is_new = |endpoint, target| {
            let targets = known.and_then(|endpoints| endpoints.get(&endpoint));
            !targets.is_some_and(|targets| targets.contains_key(&target))
        };
        let all = slice.endpoints.len() * slice.ports.len();
        let new_ones = new
            .named()
            .filter(|(endpoint, shown, _)| is_new(*endpoint, shown.target));
        all <= left_out::OF_ONE && self.room.admits(&new.service.0, new_ones.count())
    }

    fn list(&mut self, part: &SlicePart<'_>, touched: &mut Touched) {
        let service = part.service;
        let endpoints = self.services.entry(service.clone()).or_default();
        for (endpoint, shown, port) in part.named() {
            let target = shown.target;
            let targets = endpoints.entry(endpoint).or_default();
            let listing = targets.entry(target).or_insert_with(|| {
                self.room.take(service.0.clone(), 1);
                Listing::default()
            });
            if !listing.is_current() {
                self.remembered.remove(service, endpoint, target);
            }
            listing.port.name(port.name);
            listing.slices += 1;
            listing.ready += usize::from(shown.ready);
            touched.add(service, endpoint, target);
            self.ips.entry(endpoint.ip).or_default().insert(service.clone());
            if let Some(uid) = target {
                self.names.add(uid, shown.target_name);
                self.pods
                    .entry(uid)
                    .or_default()
                    .insert((service.clone(), endpoint.ip));
            }
        }
    }

    fn unlist(&mut self, now: Duration, part: &SlicePart<'_>, touched: &mut Touched) {
        let service = part.service;
        let Some(endpoints) = self.services.get_mut(service) else {
            return;
        };
        for (endpoint, shown, _) in part.named() {
            let target = shown.target;
            if let Some(listing) = endpoints
                .get_mut(&endpoint)
                .and_then(|targets| targets.get_mut(&target))
            {
                listing.slices = listing.slices.saturating_sub(1);
                listing.last = now;
                if shown.ready {
                    listing.ready = listing.ready.saturating_sub(1);
                    listing.last_ready = Some(now);
                }
                if !listing.is_current() {
                    self.remembered.add(service, now, endpoint, target);
                }
                touched.add(service, endpoint, target);
            }
        }
        self.drop_surplus(service, touched);
    }
}

impl Touched {
    pub(super) fn add(&mut self, service: &Name, endpoint: Endpoint, target: Target) {
        self.pairs.insert((service.clone(), endpoint.ip));
        self.pods.extend(target);
    }
}
