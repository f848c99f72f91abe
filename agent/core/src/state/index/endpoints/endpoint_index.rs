//! Index of the endpoints that each Service lists, or listed recently: conntrack, proxies and clients keep endpoints
//! longer than slices do.

use super::endpoint::OfService;
use super::places::Places;
use super::room::{OF_ALL, OF_NAMESPACE};
use super::slice_part::SlicePart;
use super::{Endpoint, Listing, Target, Targets};
use crate::counts::{Counts, Groups, uncount, ungroup};
use crate::facts::{Name, Slice, Text};
use crate::sorted_map::SortedMap;
use crate::state::index::Moment;
use crate::state::index::quota::{LeftOut, Quota};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// How often a packet to an endpoint is noted.
const NOTED_EVERY: Duration = Duration::from_mins(1);

/// The endpoints of all Services.
#[derive(Debug, Clone, Default)]
pub struct EndpointIndex {
    pub(crate) slices: HashMap<Name, Box<Slice>>,
    pub(crate) services: HashMap<Name, OfService>,
    /// How many they are in each namespace.
    pub(super) of_namespaces: Counts<Text>,
    /// Services by the namespaces, other than their own, of the pods that their slices name.
    pub(super) guests: Groups<Text, Name>,
    /// Where each pod is, or was, listed.
    pub(crate) places: Places,
    /// The Services that list an IP, or did, each with how many targets.
    pub(crate) ips: SortedMap<(Addr, Name), u32>,
    /// The endpoints of each Service that no slice lists now, each with its [`Listing::used`].
    pub(super) remembered: Groups<Name, (Moment, Endpoint, Target)>,
    /// Quota of targets behind sockets.
    pub(crate) room: Quota<OF_ALL, OF_NAMESPACE>,
    /// Slices for whose endpoints there is no room, or that were read in part: nothing is denied of their Services.
    pub(crate) left_out: LeftOut<Name, ()>,
    /// Pairs of address and port of all slices, by namespace.
    pub(super) kept: Counts<Text>,
}

/// The entries that a change of slices touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// (Service, IP) pairs.
    pub pairs: BTreeSet<(Name, Addr)>,
    /// Services of which a slice was left out, or no longer is: that concerns all their denials.
    pub services: BTreeSet<Name>,
    /// Pods that are named there, or were until now.
    pub places: BTreeSet<(Uid, Addr, Name)>,
    /// Services of which a slice shows another writer, or another namespace.
    pub shows_writer: BTreeSet<Name>,
}

impl Touched {
    pub(crate) fn add(&mut self, service: &Name, ip: Addr, target: Target) {
        self.pairs.insert((service.clone(), ip));
        self.places.extend(target.map(|uid| (uid, ip, service.clone())));
    }
}

impl EndpointIndex {
    /// Adds or replaces a slice; removes it with `None`.
    pub fn set(&mut self, now: Duration, name: &Name, slice: Option<Slice>) -> Touched {
        let mut touched = Touched::default();
        self.replace(now, name, slice, &mut touched);
        touched
    }

    /// Notes a packet to a denied endpoint: a client still uses the endpoint, so the index keeps it. At most once a minute, since
    /// thousands of targets may be behind it.
    pub fn hit(&mut self, now: Duration, service: &Name, endpoint: &Endpoint) {
        let is_old = |listing: &Listing| now.saturating_sub(listing.used.into()) >= NOTED_EVERY;
        let all = self.targets(service, endpoint).into_iter().flat_map(Targets::iter);
        let old: Vec<Target> = all.filter(|(_, listing)| is_old(listing)).map(|(target, _)| target).collect();
        for target in old {
            self.edit(service, *endpoint, target, |listing| listing.used = now.into());
        }
    }

    /// Adds a dead pod at the place where a Service once listed it, in a restore. `foreign`: another writer's slice did, or may have.
    pub fn record(&mut self, now: Duration, service: &Name, endpoint: Endpoint, uid: Uid, foreign: bool) {
        self.edit(service, endpoint, Some(uid), |listing| {
            (listing.last, listing.used) = (now.into(), now.into());
            listing.foreign |= foreign;
        });
    }

    /// Adds a namespace of which slices of a Service name pods. True if none did so.
    pub fn name_namespace(&mut self, service: &Name, namespace: &Text) -> bool {
        let Some(known) = self.services.get_mut(service) else {
            return false;
        };
        if known.namespaces.contains(namespace) {
            return false;
        }
        known.namespaces.push(namespace.clone());
        if *namespace != service.0 {
            self.guests.entry(namespace.clone()).or_default().insert(service.clone());
        }
        true
    }

    /// Drops what slices showed of a Service without endpoints.
    pub(super) fn forget_service(&mut self, service: &Name) {
        let Some(known) = self.services.remove(service) else {
            return;
        };
        uncount(&mut self.of_namespaces, &service.0, 1);
        for namespace in &known.namespaces {
            ungroup(&mut self.guests, namespace, service);
        }
    }

    /// Edits the listing of a target, which is added if there is none.
    fn edit(&mut self, service: &Name, endpoint: Endpoint, target: Target, edit: impl FnOnce(&mut Listing)) {
        let key = (endpoint, target);
        let of_namespaces = &mut self.of_namespaces;
        let known = self.services.entry(service.clone()).or_insert_with(|| {
            *of_namespaces.entry(service.0.clone()).or_default() += 1;
            OfService::default()
        });
        let is_new = !known.endpoints.contains_key(&key);
        if is_new {
            known.endpoints.insert(key, Listing::default());
        }
        let remembered = &mut self.remembered;
        known.edit(&key, |listing| {
            if !listing.is_current() {
                ungroup(remembered, service, &(listing.used, endpoint, target));
            }
            edit(listing);
            if !listing.is_current() {
                let remembered = remembered.entry(service.clone()).or_default();
                remembered.insert((listing.used, endpoint, target));
            }
        });
        if is_new {
            self.count(service, endpoint.ip, target);
        }
    }

    /// Counts a target that is new.
    fn count(&mut self, service: &Name, ip: Addr, target: Target) {
        self.room.take(service.0.clone(), 1);
        let key = (ip, service.clone());
        match self.ips.get_mut(&key) {
            Some(targets) => *targets += 1,
            None => drop(self.ips.insert(key, 1)),
        }
        if let Some(uid) = target {
            self.places.add(uid, ip);
        }
    }

    /// Counts a target less.
    pub(super) fn uncount(&mut self, service: &Name, ip: Addr, target: Target) {
        self.room.give_back(&service.0, 1);
        let key = (ip, service.clone());
        match self.ips.get_mut(&key) {
            Some(targets) if *targets > 1 => *targets -= 1,
            _ => drop(self.ips.remove(&key)),
        }
        if let Some(uid) = target {
            self.places.remove(uid, ip);
        }
    }

    pub(super) fn replace(
        &mut self,
        now: Duration,
        name: &Name,
        slice: Option<Slice>,
        touched: &mut Touched,
    ) {
        let slice = slice.filter(|slice| slice.service.is_some());
        let known = self.slices.get(name).map(Box::as_ref);
        if known == slice.as_ref() && !self.left_out.all.contains(name) {
            return;
        }
        let listed = self.take_out(name, touched);
        let before = listed.as_deref();
        let slice = slice.map(|slice| self.bounded(slice));
        let new = slice.as_ref().and_then(|slice| SlicePart::missing_in(slice, before));
        let is_partial = slice.as_ref().is_some_and(|slice| slice.partial);
        let is_left_out = is_partial || new.as_ref().is_some_and(|new| !self.has_room(new));
        let after = if is_left_out { None } else { slice.as_ref() };
        // Before it is listed anew: what slices called a port before does not count.
        let gone = before.and_then(|before| SlicePart::missing_in(before, after));
        if let Some(gone) = &gone {
            self.unlist(now, gone, touched);
        }
        if let Some(new) = &new
            && !is_left_out
        {
            self.list(new, touched);
        }
        if let Some(gone) = &gone {
            self.drop_surplus(gone.service, touched);
        }
        if let Some(slice) = slice {
            if is_left_out {
                self.left_out.add(&slice.name, slice.service.clone(), []);
                touched.services.extend(slice.service.clone());
            }
            self.keep(slice);
        }
    }

    fn list(&mut self, part: &SlicePart<'_>, touched: &mut Touched) {
        let service = part.service;
        for (endpoint, shown, port) in part.named() {
            self.edit(service, endpoint, shown.target, |listing| {
                listing.add(port.name, shown.ready, part.slice.foreign);
            });
        }
        if part.slice.foreign && part.endpoints.iter().any(|shown| shown.target.is_some()) {
            touched.shows_writer.insert(service.clone());
        }
        for namespace in &part.slice.namespaces {
            if self.name_namespace(service, namespace) {
                touched.shows_writer.insert(service.clone());
            }
        }
        for shown in &part.endpoints {
            touched.add(service, shown.ip, shown.target);
        }
    }

    fn unlist(&mut self, now: Duration, part: &SlicePart<'_>, touched: &mut Touched) {
        for (endpoint, shown, _) in part.named() {
            self.edit(part.service, endpoint, shown.target, |listing| listing.take_away(now, shown.ready));
        }
        for shown in &part.endpoints {
            touched.add(part.service, shown.ip, shown.target);
        }
    }
}
