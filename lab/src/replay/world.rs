//! The raw objects that the watches have shown so far, and facts that follow from their order
//! alone.

use super::pod;
use super::recording::{ApiEvent, Change, Kind, Listed, RecordedObject, WATCHED};
use crate::object::{
    self, Port, endpoints, has_selector, is_controllers, named_namespaces, ports, selects,
    slice_service,
};
use crate::proxy::Protocol;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// An endpoint of a Service: the key of a denial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `namespace/name`.
    pub service: String,
    /// The endpoint's IP.
    pub ip: IpAddr,
    /// The endpoint's port (the target port, not the Service's), host order.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
}

/// The knowledge of a client of the four watches.
#[derive(Debug, Default)]
pub struct World {
    /// By UID; removed pods stay.
    pub(super) pods: BTreeMap<String, PodRecord>,
    pub(super) listed: Listed,
    /// UIDs that the Service's slices list or listed at an endpoint, and the last time of each.
    pub(super) listings: BTreeMap<Key, BTreeMap<Option<String>, Duration>>,
    /// Services that were deleted once; a later Service of the same name is another one.
    pub(super) deleted_services: BTreeSet<String>,
    /// Addresses that nodes have had.
    pub(super) infrastructure: BTreeSet<IpAddr>,
    synced: BTreeSet<Kind>,
    open: BTreeSet<Kind>,
    /// The number of the latest list of pods: the order of earlier events is not known.
    pub(super) pods_listed: u64,
    /// Events so far. All objects of one list have the same number.
    events: u64,
}

/// A pod and facts from its events.
#[derive(Debug, Default)]
pub(super) struct PodRecord {
    /// The latest state; of a deleted pod the last.
    pub(super) object: RecordedObject,
    pub(super) gone: Gone,
    /// Proven dead; never false again.
    pub(super) dead: bool,
    /// The number of the event that first published each IP, in the latest uninterrupted stretch.
    pub(super) claims: BTreeMap<IpAddr, u64>,
}

/// How a pod left the watch.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    #[default]
    No,
    /// DELETED in a continuous watch.
    Deleted,
    /// Missing in a later list, which proves nothing.
    Vanished,
}

/// The proven state of a pod (docs/verdicts.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Never seen, or gone without proof.
    Unknown,
    Live,
    Retired,
    Dead,
}

impl World {
    /// Takes one event.
    pub fn apply(&mut self, now: Duration, event: &ApiEvent) {
        self.events += 1;
        self.note_listings(now);
        match &event.change {
            Change::Closed => _ = self.open.remove(&event.kind),
            Change::Resumed => _ = self.open.insert(event.kind),
            Change::Reset(_) => {
                self.open.insert(event.kind);
                self.synced.insert(event.kind);
            }
            Change::Applied(_) | Change::Deleted(_) => {}
        }
        let before: Vec<String> = self
            .listed
            .of(Kind::Service)
            .map(|service| object::name(service))
            .collect();
        self.listed.apply(event);
        let there = |name: &String| self.listed.get(Kind::Service, name).is_some();
        self.deleted_services
            .extend(before.into_iter().filter(|name| !there(name)));
        match event.kind {
            Kind::Pod => self.apply_pods(&event.change),
            Kind::Node => {
                let nodes = event.change.objects().iter();
                self.infrastructure
                    .extend(nodes.flat_map(|node| object::node_addresses(node)));
            }
            _ => {}
        }
        self.note_listings(now);
    }

    /// Whether every watch has shown everything at least once.
    pub fn is_synced(&self) -> bool {
        self.synced.len() == WATCHED.len()
    }

    /// Whether all watches run.
    pub fn is_watching(&self) -> bool {
        self.is_synced() && self.open.len() == WATCHED.len()
    }

    /// The slices of a Service.
    pub(super) fn slices<'a>(
        &'a self,
        service: &'a str,
    ) -> impl Iterator<Item = &'a RecordedObject> {
        let slices = self.listed.of(Kind::EndpointSlice);
        slices.filter(move |slice| slice_service(slice).as_deref() == Some(service))
    }

    /// True if the pod, while it lives, is the Service's own (docs/verdicts.md).
    pub(super) fn is_own(&self, key: &Key, pod: &Value) -> bool {
        let Some(service) = self.listed.get(Kind::Service, &key.service) else {
            return false;
        };
        let mut listed = self.slices(&key.service).flat_map(|slice| endpoints(slice));
        selects(service, pod)
            || listed.any(|endpoint| endpoint.uid.is_some() && endpoint.uid == object::uid(pod))
            || !self.selector_proves(key) && self.is_of_named_namespace(key, pod)
    }

    /// True if the selector of the Service tells which pods are its own.
    pub(super) fn selector_proves(&self, key: &Key) -> bool {
        let Some(service) = self.listed.get(Kind::Service, &key.service) else {
            return false;
        };
        let mut slices = self.slices(&key.service);
        let of_service = self
            .listings
            .iter()
            .filter(|(listed, _)| listed.service == key.service);
        let listed = of_service.flat_map(|(_, uids)| uids.keys().flatten());
        let mut pods = listed.filter_map(|uid| self.pods.get(uid));
        has_selector(service)
            && slices
                .all(|slice| is_controllers(slice) || endpoints(slice).all(|one| one.uid.is_none()))
            && pods.all(|record| selects(service, &record.object))
    }

    /// True if slices of the Service name a pod of this pod's namespace, or named one.
    fn is_of_named_namespace(&self, key: &Key, pod: &Value) -> bool {
        let namespace = &pod["metadata"]["namespace"];
        let mut named = self
            .slices(&key.service)
            .flat_map(|slice| named_namespaces(slice));
        let of_service = self
            .listings
            .iter()
            .filter(|(listed, _)| listed.service == key.service);
        let listed = of_service.flat_map(|(_, uids)| uids.keys().flatten());
        let mut pods = listed.filter_map(|uid| self.pods.get(uid));
        named.any(|named| named == namespace)
            || pods.any(|record| record.object["metadata"]["namespace"] == *namespace)
    }

    /// Pods that are in the API and not terminal.
    pub(super) fn live_pods(&self) -> impl Iterator<Item = (&str, &PodRecord)> {
        let pods = self.pods.iter().map(|(uid, record)| (uid.as_str(), record));
        pods.filter(|(uid, _)| self.standing(uid) == Standing::Live)
    }

    pub(super) fn standing(&self, uid: &str) -> Standing {
        let Some(PodRecord {
            object, gone, dead, ..
        }) = self.pods.get(uid)
        else {
            return Standing::Unknown;
        };
        let retired = match gone {
            Gone::Deleted => {
                object["metadata"]["deletionTimestamp"].is_string() || pod::is_terminal(object)
            }
            Gone::No | Gone::Vanished => pod::is_terminal(object),
        };
        match (pod::is_mirror(object), gone) {
            (false, _) if *dead => Standing::Dead,
            (false, _) if retired => Standing::Retired,
            (_, Gone::No) => Standing::Live,
            (_, Gone::Deleted | Gone::Vanished) => Standing::Unknown,
        }
    }

    fn apply_pods(&mut self, change: &Change) {
        let gone = if matches!(change, Change::Deleted(_)) {
            Gone::Deleted
        } else {
            Gone::No
        };
        if matches!(change, Change::Reset(_)) {
            self.pods_listed = self.events;
            for record in self
                .pods
                .values_mut()
                .filter(|record| record.gone == Gone::No)
            {
                record.gone = Gone::Vanished;
            }
        }
        let identified = change
            .objects()
            .iter()
            .filter_map(|object| Some((object::uid(object)?, object)));
        for (uid, object) in identified {
            self.infrastructure.extend(pod::node_ips(object));
            let record = self.pods.entry(uid.to_owned()).or_default();
            let before = pod::ips(&record.object);
            for ip in pod::ips(object) {
                if !before.contains(&ip) || !record.claims.contains_key(&ip) {
                    record.claims.insert(ip, self.events);
                }
            }
            record.dead |= pod::is_dead(object);
            record.gone = gone;
            record.object = RecordedObject::clone(object);
        }
    }

    fn note_listings(&mut self, now: Duration) {
        for slice in self.listed.of(Kind::EndpointSlice) {
            let Some(service) = slice_service(slice) else {
                continue;
            };
            for endpoint in endpoints(slice) {
                for Port {
                    number: port,
                    protocol,
                    ..
                } in ports(slice)
                {
                    let key = Key {
                        service: service.clone(),
                        ip: endpoint.ip,
                        port,
                        protocol,
                    };
                    let uids = self.listings.entry(key).or_default();
                    uids.insert(endpoint.uid.map(str::to_owned), now);
                }
            }
        }
    }
}
