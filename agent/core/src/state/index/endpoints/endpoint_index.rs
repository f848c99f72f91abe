//! Index of the endpoints that each Service lists, or listed recently: conntrack, proxies and
//! clients keep endpoints longer than slices do.

use super::endpoint::ServiceEndpoints;
use super::places::Places;
use super::{Endpoint, Listing, Target, Targets};
use crate::counts::{Counts, Groups, uncount, ungroup};
use crate::facts::{ObjectName, Slice, Text};
use crate::sorted_map::SortedMap;
use crate::state::index::Moment;
use crate::state::index::quota::{LeftOut, Quota};
use epguard_common::{Addr, Uid};
use std::collections::HashMap;
use std::time::Duration;

/// Endpoints that all Services list, or listed recently.
pub(super) const OF_ALL: usize = 160 * Slice::MOST_PAIRS;

/// Those of one namespace, and what its slices list together, in pairs of address and port.
/// Kubernetes supports 3,000 pods in one.
pub(super) const OF_NAMESPACE: usize = 6 * Slice::MOST_PAIRS;

/// How often a packet to an endpoint is noted.
const NOTED_EVERY: Duration = Duration::from_mins(1);

/// The endpoints of all Services.
#[derive(Debug, Clone, Default)]
pub struct EndpointIndex {
    pub(crate) slices: HashMap<ObjectName, Box<Slice>>,
    pub(crate) services: HashMap<ObjectName, ServiceEndpoints>,
    /// How many they are in each namespace.
    pub(super) of_namespaces: Counts<Text>,
    /// Services by the namespaces, other than their own, of the pods that their slices name.
    pub(super) guests: Groups<Text, ObjectName>,
    /// Where each pod is, or was, listed.
    pub(crate) places: Places,
    /// The Services that list an IP, or did, each with how many targets.
    pub(crate) ips: SortedMap<(Addr, ObjectName), u32>,
    /// The endpoints of each Service that no slice lists now, each with its [`Listing::used`].
    pub(super) remembered: Groups<ObjectName, (Moment, Endpoint, Target)>,
    /// Quota of targets behind sockets.
    pub(crate) room: Quota<OF_ALL, OF_NAMESPACE>,
    /// Slices for whose endpoints there is no room, or that were read in part: nothing is denied of
    /// their Services.
    pub(crate) left_out: LeftOut<ObjectName, ()>,
    /// Pairs of address and port of all slices, by namespace.
    pub(super) kept: Counts<Text>,
}

impl EndpointIndex {
    /// Notes a packet to a denied endpoint: a client still uses the endpoint, so the index keeps
    /// it. At most once a minute, since thousands of targets may be behind it.
    pub fn hit(&mut self, now: Duration, service: &ObjectName, endpoint: &Endpoint) {
        let is_old = |listing: &Listing| now.saturating_sub(listing.used.into()) >= NOTED_EVERY;
        let all = self
            .targets(service, endpoint)
            .into_iter()
            .flat_map(Targets::iter);
        let old: Vec<Target> = all
            .filter(|(_, listing)| is_old(listing))
            .map(|(target, _)| target)
            .collect();
        for target in old {
            self.edit(service, *endpoint, target, |listing| {
                listing.used = now.into();
            });
        }
    }

    /// Adds a dead pod at the place where a Service once listed it, in a restore. `foreign`:
    /// another writer's slice did, or may have.
    pub fn record(
        &mut self,
        now: Duration,
        service: &ObjectName,
        endpoint: Endpoint,
        uid: Uid,
        foreign: bool,
    ) {
        self.edit(service, endpoint, Some(uid), |listing| {
            (listing.last, listing.used) = (now.into(), now.into());
            listing.foreign |= foreign;
        });
    }

    /// Adds a namespace of which slices of a Service name pods. True if none did so.
    pub fn name_namespace(&mut self, service: &ObjectName, namespace: &Text) -> bool {
        let Some(known) = self.services.get_mut(service) else {
            return false;
        };
        if known.namespaces.contains(namespace) {
            return false;
        }
        known.namespaces.push(namespace.clone());
        if *namespace != service.namespace {
            self.guests
                .entry(namespace.clone())
                .or_default()
                .insert(service.clone());
        }
        true
    }

    /// Drops what slices showed of a Service without endpoints.
    pub(super) fn forget_service(&mut self, service: &ObjectName) {
        let Some(known) = self.services.remove(service) else {
            return;
        };
        uncount(&mut self.of_namespaces, &service.namespace, 1);
        for namespace in &known.namespaces {
            ungroup(&mut self.guests, namespace, service);
        }
    }

    /// Edits the listing of one target, as [`Self::edit_all`] does.
    fn edit(
        &mut self,
        service: &ObjectName,
        endpoint: Endpoint,
        target: Target,
        edit: impl FnOnce(&mut Listing),
    ) {
        self.edit_all(service, [(endpoint, target, edit)]);
    }

    /// Edits the listings of these targets of a Service. Those that it lacks are added.
    pub(super) fn edit_all<F: FnOnce(&mut Listing)>(
        &mut self,
        service: &ObjectName,
        targets: impl IntoIterator<Item = (Endpoint, Target, F)>,
    ) {
        let mut targets = targets.into_iter().peekable();
        // A Service without endpoints takes no room.
        if targets.peek().is_none() {
            return;
        }
        let of_namespaces = &mut self.of_namespaces;
        let known = self.services.entry(service.clone()).or_insert_with(|| {
            *of_namespaces.entry(service.namespace.clone()).or_default() += 1;
            ServiceEndpoints::default()
        });
        let mut remembered = self.remembered.remove(service).unwrap_or_default();
        let mut new = Vec::new();
        for (endpoint, target, edit) in targets {
            let is_new = known.edit((endpoint, target), |listing| {
                if !listing.is_current() {
                    remembered.remove(&(listing.used, endpoint, target));
                }
                edit(listing);
                if !listing.is_current() {
                    remembered.insert((listing.used, endpoint, target));
                }
            });
            if is_new {
                new.push((endpoint.ip, target));
            }
        }
        if !remembered.is_empty() {
            self.remembered.insert(service.clone(), remembered);
        }
        self.count(service, &new);
    }

    /// Counts these targets, which are new.
    fn count(&mut self, service: &ObjectName, targets: &[(Addr, Target)]) {
        self.room.take(service.namespace.clone(), targets.len());
        for (ip, target) in targets {
            self.ips.count((*ip, service.clone()));
            if let Some(uid) = target {
                self.places.add(*uid, *ip);
            }
        }
    }

    /// Counts these targets less.
    pub(super) fn uncount(&mut self, service: &ObjectName, targets: &[(Addr, Target)]) {
        self.room.give_back(&service.namespace, targets.len());
        for (ip, target) in targets {
            self.ips.uncount(&(*ip, service.clone()));
            if let Some(uid) = target {
                self.places.remove(*uid, *ip);
            }
        }
    }
}
