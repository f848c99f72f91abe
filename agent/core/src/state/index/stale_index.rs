//! The endpoints that name a pod that has ended. Only these can be denied, so a change that concerns many endpoints needs
//! to look at no others.

use crate::facts::{Name, Text};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Retired and dead pods that Services list, or listed recently.
#[derive(Debug, Clone, Default)]
pub struct StaleIndex {
    pods: HashMap<Uid, Ended>,
    /// How many ended pods each Service lists at each IP.
    services: BTreeMap<Name, BTreeMap<Addr, usize>>,
    nodes: HashMap<Text, BTreeSet<Uid>>,
}

/// A pod that has ended: its node, and where Services list it or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::state) struct Ended {
    pub node: Option<Text>,
    pub places: Vec<Place>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::state) struct Place {
    pub service: Name,
    pub ip: Addr,
}

impl StaleIndex {
    /// True if the Service lists an ended pod at the IP, or did recently.
    #[must_use]
    pub fn has(&self, service: &Name, ip: Addr) -> bool {
        self.services
            .get(service)
            .is_some_and(|ips| ips.contains_key(&ip))
    }

    /// The IPs at which the Service lists ended pods, or did recently.
    pub fn ips(&self, service: &Name) -> impl Iterator<Item = Addr> {
        let ips = self.services.get(service);
        ips.into_iter().flat_map(|ips| ips.keys().copied())
    }

    /// The Services that list ended pods, or did recently.
    pub fn services(&self) -> impl Iterator<Item = &Name> {
        self.services.keys()
    }

    /// True if the Service lists an ended pod, or did recently.
    #[must_use]
    pub fn lists(&self, service: &Name) -> bool {
        self.services.contains_key(service)
    }

    /// The Services of a namespace that list ended pods, or did recently.
    pub fn services_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Name> {
        let first = (Text::from(namespace), Text::default());
        let services = self.services.range(first..).map(|(service, _)| service);
        services.take_while(move |service| service.0 == namespace)
    }

    /// The pairs that name an ended pod of the node.
    pub fn of_node(&self, node: &str) -> impl Iterator<Item = (&Name, Addr)> {
        let pods = self.nodes.get(node).into_iter().flatten();
        let places = pods
            .filter_map(|uid| self.pods.get(uid))
            .flat_map(|ended| &ended.places);
        places.map(|place| (&place.service, place.ip))
    }

    /// Stores that a pod has ended, and where it is listed; removes it with `None`.
    pub(in crate::state) fn set(&mut self, uid: Uid, ended: Option<Ended>) {
        if self.pods.get(&uid) == ended.as_ref() {
            return;
        }
        if let Some(before) = self.pods.remove(&uid) {
            for place in &before.places {
                self.remove(place);
            }
            self.forget(uid, before.node.as_ref());
        }
        if let Some(ended) = ended {
            for place in &ended.places {
                self.add(place);
            }
            if let Some(node) = &ended.node {
                self.nodes.entry(node.clone()).or_default().insert(uid);
            }
            self.pods.insert(uid, ended);
        }
    }

    /// Stores whether a Service lists a pod that has ended at an IP.
    pub(in crate::state) fn set_place(
        &mut self,
        uid: Uid,
        node: Option<Text>,
        place: Place,
        is_listed: bool,
    ) {
        let mut ended = self.pods.remove(&uid).unwrap_or(Ended {
            node,
            places: Vec::new(),
        });
        let is_there = |known: &Place| known.service == place.service && known.ip == place.ip;
        if let Some(at) = ended.places.iter().position(is_there) {
            self.remove(&ended.places.swap_remove(at));
        }
        if is_listed {
            self.add(&place);
            ended.places.push(place);
        }
        if ended.places.is_empty() {
            self.forget(uid, ended.node.as_ref());
            return;
        }
        if let Some(node) = &ended.node {
            self.nodes.entry(node.clone()).or_default().insert(uid);
        }
        self.pods.insert(uid, ended);
    }

    fn forget(&mut self, uid: Uid, node: Option<&Text>) {
        let Some(node) = node else { return };
        let pods = self.nodes.get_mut(node);
        if pods.is_some_and(|pods| pods.remove(&uid) && pods.is_empty()) {
            self.nodes.remove(node);
        }
    }

    fn add(&mut self, place: &Place) {
        let ips = self.services.entry(place.service.clone()).or_default();
        *ips.entry(place.ip).or_default() += 1;
    }

    fn remove(&mut self, place: &Place) {
        let Some(ips) = self.services.get_mut(&place.service) else {
            return;
        };
        if let Some(count) = ips.get_mut(&place.ip) {
            *count -= 1;
            if *count == 0 {
                ips.remove(&place.ip);
            }
        }
        if ips.is_empty() {
            self.services.remove(&place.service);
        }
    }
}
