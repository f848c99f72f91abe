//! The endpoints that name a pod that has ended. Only these can be denied, so a change that concerns many endpoints needs
//! to look at no others.

use super::ClusterIndex;
use crate::counts::Groups;
use crate::facts::{Name, Text};
use epguard_common::{Addr, Uid, UidState};
use std::collections::BTreeSet;

/// Where Services list retired and dead pods, or did recently.
#[derive(Debug, Clone, Default)]
pub struct StaleIndex {
    by_service: Groups<Name, (Addr, Uid)>,
    by_pod: Groups<Uid, (Name, Addr)>,
}

impl StaleIndex {
    /// True if the Service lists an ended pod at the IP, or did recently.
    #[must_use]
    pub fn has(&self, service: &Name, ip: Addr) -> bool {
        let mut from = self.by_service.from(service, (ip, Uid::NONE));
        from.next().is_some_and(|(own, _)| *own == ip)
    }

    /// The IPs at which the Service lists ended pods, or did recently, ascending.
    pub fn ips(&self, service: &Name) -> impl Iterator<Item = Addr> {
        self.by_service.get(service).map(|(ip, _)| *ip)
    }

    /// The Services that list ended pods, or did recently.
    pub fn services(&self) -> impl Iterator<Item = &Name> {
        self.by_service.keys()
    }

    /// True if the Service lists an ended pod, or did recently.
    #[must_use]
    pub fn lists(&self, service: &Name) -> bool {
        self.by_service.get(service).next().is_some()
    }

    /// The Services of a namespace that list ended pods, or did recently.
    pub fn services_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Name> {
        let services = self.by_service.keys_from((Text::from(namespace), Text::default()));
        services.take_while(move |service| service.0 == namespace)
    }

    fn set(&mut self, uid: Uid, service: &Name, ip: Addr, is_stale: bool) {
        if is_stale {
            self.by_service.insert(service.clone(), (ip, uid));
            self.by_pod.insert(uid, (service.clone(), ip));
        } else {
            self.by_service.remove(service, &(ip, uid));
            self.by_pod.remove(&uid, &(service.clone(), ip));
        }
    }
}

impl ClusterIndex {
    /// The pairs that name an ended pod of one of the nodes.
    pub(in crate::state) fn stale_of_nodes(
        &self,
        nodes: &BTreeSet<Text>,
    ) -> impl Iterator<Item = (&Name, Addr)> {
        let is_of = move |uid: &&Uid| {
            let node = self.pods.get(**uid).and_then(|record| record.pod.node.as_ref());
            node.is_some_and(|node| nodes.contains(node))
        };
        let pods = self.stale.by_pod.keys().filter(is_of);
        pods.flat_map(|uid| self.stale.by_pod.get(uid)).map(|(service, ip)| (service, *ip))
    }

    /// Updates the index, after a change of the pod.
    pub(in crate::state) fn index_stale(&mut self, uid: Uid) {
        let known: BTreeSet<(Name, Addr)> = self.stale.by_pod.get(&uid).cloned().collect();
        let listed = self.has_ended(uid).then(|| self.endpoint_index.of_pod(uid));
        let listed = listed.into_iter().flatten().map(|(service, ip)| (service.clone(), ip));
        let listed: BTreeSet<(Name, Addr)> = listed.collect();
        for (service, ip) in known.difference(&listed) {
            self.stale.set(uid, service, *ip, false);
        }
        for (service, ip) in listed.difference(&known) {
            self.stale.set(uid, service, *ip, true);
        }
    }

    /// The same, after a change of the endpoints of one Service at one IP: many Services may list the pod there.
    pub(in crate::state) fn index_stale_at(&mut self, uid: Uid, service: &Name, ip: Addr) {
        let is_stale = self.has_ended(uid) && self.endpoint_index.names(service, ip, uid);
        self.stale.set(uid, service, ip, is_stale);
    }

    fn has_ended(&self, uid: Uid) -> bool {
        self.pods.get(uid).is_some_and(|record| record.uid_state != UidState::Live)
    }
}
