//! Deaths that are put back into the index: those that an earlier process proved, and those that
//! hold though everything is listed anew.

use super::ClusterIndex;
use super::endpoints::Endpoint;
use super::pods::{Record, RestoredPod};
use crate::facts::ObjectName;
use epguard_common::{Addr, Uid, UidState};
use std::collections::BTreeSet;
use std::time::Duration;

/// A dead pod, and where Services list it or did recently.
#[derive(Debug, Clone)]
pub struct Death {
    record: Record,
    places: Vec<DeathPlace>,
}

/// A place where a Service lists a dead pod, or did.
#[derive(Debug, Clone)]
struct DeathPlace {
    service: ObjectName,
    endpoint: Endpoint,
    /// True if a slice of another writer does.
    is_foreign: bool,
}

/// A denial that an earlier process carried out on a death.
#[derive(Debug)]
pub struct RestoredDenial {
    /// The Service.
    pub service: ObjectName,
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// The pod that was meant.
    pub pod: RestoredPod,
}

impl ClusterIndex {
    /// Restores the pod that a denial was meant for, and where the Service listed it.
    pub(crate) fn restore_denial(&mut self, now: Duration, denial: RestoredDenial) {
        let RestoredDenial {
            service,
            endpoint,
            pod,
        } = denial;
        let uid = pod.uid;
        let namespace = pod.name.as_ref().unwrap_or(&service).namespace.clone();
        self.restore_dead(now, pod, endpoint.ip);
        let record = self.pods.get(uid);
        if record.is_none_or(|record| record.uid_state != UidState::Dead) {
            return;
        }
        // Who wrote a slice that is gone is not known.
        let is_foreign = !self.endpoint_index.lists(&service, endpoint.ip, uid);
        self.endpoint_index
            .record(now, &service, endpoint, uid, is_foreign);
        self.endpoint_index.name_namespace(&service, &namespace);
    }

    /// Restores a pod that an earlier process saw dead at an IP. False if the API shows it alive,
    /// which voids that, or dead.
    pub(crate) fn restore_dead(&mut self, now: Duration, pod: RestoredPod, ip: Addr) -> bool {
        let uid = pod.uid;
        let is_restored = self.pods.restore_dead(pod, ip, now);
        self.note_node(uid);
        is_restored
    }

    /// The deaths that are proven now.
    pub(crate) fn deaths(&self) -> Vec<(Uid, Death)> {
        let mut deaths = Vec::new();
        for record in self.pods.iter() {
            let uid = record.pod.uid;
            if !self.pods.is_dead(uid) {
                continue;
            }
            let mut places = Vec::new();
            for (service, ip) in self.endpoint_index.of_pod(uid) {
                for (endpoint, targets) in self.endpoint_index.endpoints_at(service, ip) {
                    if let Some(listing) = targets.get(uid) {
                        places.push(DeathPlace {
                            service: service.clone(),
                            endpoint: *endpoint,
                            is_foreign: listing.foreign,
                        });
                    }
                }
            }
            let record = record.clone();
            deaths.push((uid, Death { record, places }));
        }
        deaths
    }

    /// Updates what the index knows of Services after these pods were restored. Returns the
    /// Services that list them.
    pub(crate) fn index_restored(&mut self, dead: Vec<Uid>) -> BTreeSet<ObjectName> {
        let mut services = BTreeSet::new();
        for uid in dead {
            self.index_stale(uid);
            services.append(&mut self.endpoint_index.services_of_pod(uid));
        }
        for service in &services {
            self.doubt_selector(service);
        }
        services
    }

    /// Puts a death back that the API shows no more.
    pub(crate) fn put_death_back(&mut self, now: Duration, death: Death) {
        let Death { record, places } = death;
        let uid = record.pod.uid;
        let namespace = record.pod.name.namespace.clone();
        self.pods.keep_dead(record);
        for place in places {
            let service = &place.service;
            self.endpoint_index
                .record(now, service, place.endpoint, uid, place.is_foreign);
            self.endpoint_index.name_namespace(service, &namespace);
        }
    }

    /// Takes a death back: the pod may hold its IP again, or any other one.
    pub(crate) fn take_death_back(&mut self, uid: Uid) {
        self.pods.take_back(uid);
        self.index_stale(uid);
    }
}
