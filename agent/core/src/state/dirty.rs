//! The verdicts that a fact may have changed. Too many only costs time; one too few would be a stale denial.

use super::{ClusterIndex, Record, endpoint_index};
use crate::facts::{Change, Fact, Name, Pod, PodName, Service};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What has to be judged again.
#[derive(Debug, Default)]
pub struct Dirty {
    /// (Service, IP) pairs to judge.
    pub pairs: BTreeSet<(Name, Addr)>,
    /// Pairs to judge because a possible holder came or went; nothing changed about the IP itself.
    pub selected: BTreeSet<(Name, Addr)>,
    /// IPs whose owner may have changed.
    pub ips: BTreeSet<Addr>,
    /// Pods whose state may have changed.
    pub pods: BTreeSet<Uid>,
    /// Pods that published an IP, and since when they may have held it unpublished.
    pub published: Vec<(Uid, Addr, Duration)>,
    /// Whether VIPs changed.
    pub vips: bool,
    /// Whether all of it has to be judged again.
    pub everything: bool,
}

/// Applies a fact to the index; returns what has to be judged again.
pub fn absorb(cluster: &mut ClusterIndex, now: Duration, fact: Fact) -> Dirty {
    let mut dirty = Dirty::default();
    match fact {
        Fact::Pod(change) => {
            dirty.everything = matches!(change, Change::Reset(_));
            for (uid, before) in cluster.pods.apply(now, change) {
                dirty.changed(cluster, now, (uid, before.as_ref()));
            }
        }
        Fact::Slice(change) => {
            dirty = cluster.endpoint_index.apply(now, change).into();
            let ips: BTreeSet<Addr> = dirty.pairs.iter().map(|(_, ip)| *ip).collect();
            dirty.listing(cluster, ips);
        }
        Fact::PodsOf(part) => {
            let (touched, is_doubtful) = cluster.pods.apply_part(now, part);
            dirty.everything = is_doubtful;
            for (uid, before) in touched {
                dirty.changed(cluster, now, (uid, before.as_ref()));
            }
        }
        Fact::SlicesOf(part) => {
            dirty = cluster.endpoint_index.apply_part(now, part).into();
            let ips: BTreeSet<Addr> = dirty.pairs.iter().map(|(_, ip)| *ip).collect();
            dirty.listing(cluster, ips);
        }
        Fact::Service(change) => {
            dirty.vips = true;
            for (name, service) in keyed(change, cluster) {
                cluster.set_service(&name, service);
                dirty.service(cluster, &name);
            }
        }
        Fact::Node(change) => match change {
            Change::Applied(node) if cluster.node(&node.name) == Some(&node) => {}
            change => {
                dirty.everything = true;
                cluster.set_nodes(now, |nodes| match change {
                    Change::Reset(all) => {
                        *nodes = all.into_iter().map(|node| (node.name.clone(), node)).collect();
                    }
                    Change::Applied(node) => {
                        nodes.insert(node.name.clone(), node);
                    }
                    Change::Deleted(node) => {
                        nodes.remove(&node.name);
                    }
                });
            }
        },
        Fact::Namespace(change) => {
            for name in cluster.namespaces.apply(change) {
                dirty.namespace(cluster, &name);
            }
        }
        Fact::Presence(_) | Fact::ModePolicy(_) => {}
        Fact::LocalAddresses(addresses) => {
            dirty.everything = true;
            cluster.set_local(addresses);
        }
    }
    dirty
}

impl From<endpoint_index::Touched> for Dirty {
    fn from(endpoint_index::Touched { pairs, pods }: endpoint_index::Touched) -> Self {
        Self {
            pairs,
            pods,
            ..Self::default()
        }
    }
}

impl Dirty {
    /// Adds every pair and every IP.
    pub fn add_everything(&mut self, cluster: &ClusterIndex) {
        for (name, _) in cluster.services() {
            self.service(cluster, name);
        }
        for record in cluster.pods.iter() {
            self.pods.insert(record.pod.uid);
            self.ips.extend(record.pod.addresses());
        }
    }

    fn service(&mut self, cluster: &ClusterIndex, name: &Name) {
        self.pairs.extend(
            cluster
                .endpoint_index
                .ips(name)
                .into_iter()
                .map(|ip| (name.clone(), ip)),
        );
    }

    /// Adds the Services and the pods of a Namespace.
    fn namespace(&mut self, cluster: &ClusterIndex, name: &str) {
        for (service, _) in cluster.services_in(name) {
            self.service(cluster, service);
        }
        let pods = cluster.pods.iter().filter(|record| record.pod.name.0 == name);
        for record in pods {
            self.pod(cluster, record.pod.uid, None);
        }
    }

    fn changed(&mut self, cluster: &mut ClusterIndex, now: Duration, (uid, before): (Uid, Option<&Record>)) {
        if let Some(pod) = cluster.pods.get(uid).map(|record| record.pod.clone()) {
            self.everything |= cluster.learn(now, &pod);
        }
        self.published(cluster, uid, before);
        self.pod(cluster, uid, before);
    }

    fn published(&mut self, cluster: &ClusterIndex, uid: Uid, before: Option<&Record>) {
        let possible_holder = before.filter(|record| record.is_possible_holder());
        let Some((before, since)) =
            possible_holder.and_then(|record| Some((record, record.possible_holder_since?)))
        else {
            return;
        };
        let shown = cluster
            .pods
            .get(uid)
            .into_iter()
            .flat_map(|record| &record.pod.ips);
        let new = shown.filter(|ip| !before.pod.ips.contains(ip));
        self.published.extend(new.map(|ip| (uid, *ip, since)));
    }

    /// Adds a pod, the IPs that it shows, and the Services that list these IPs or the pod. While it is a possible
    /// holder, adds every Service that selects it or lists its name.
    fn pod(&mut self, cluster: &ClusterIndex, uid: Uid, before: Option<&Record>) {
        self.pods.insert(uid);
        self.listing(cluster, cluster.endpoint_index.of_pod(uid).map(|(_, ip)| *ip));
        for record in before.into_iter().chain(cluster.pods.get(uid)) {
            self.ips.extend(record.pod.addresses());
            self.listing(cluster, record.pod.addresses());
            if record.is_possible_holder() {
                self.selecting(cluster, &record.pod);
            }
        }
    }

    /// Adds the Services that list these IPs.
    fn listing(&mut self, cluster: &ClusterIndex, ips: impl IntoIterator<Item = Addr>) {
        for ip in ips {
            let services = cluster.endpoint_index.services_at(ip);
            self.pairs.extend(services.map(|service| (service.clone(), ip)));
        }
    }

    fn selecting(&mut self, cluster: &ClusterIndex, pod: &Pod) {
        let selecting: Vec<&Name> = cluster
            .services_in(&pod.name.0)
            .filter(|(_, s)| s.selects(pod))
            .map(|(name, _)| name)
            .collect();
        for name in selecting {
            let ips = cluster.endpoint_index.ips(name).into_iter();
            self.selected.extend(ips.map(|ip| (name.clone(), ip)));
        }
        let named = cluster.endpoint_index.of_name(PodName::of(pod));
        self.selected.extend(named.cloned());
    }
}

/// Services by name; `None` for those that no longer exist.
fn keyed(change: Change<Service>, cluster: &ClusterIndex) -> BTreeMap<Name, Option<Service>> {
    match change {
        Change::Applied(service) => BTreeMap::from([(service.name.clone(), Some(service))]),
        Change::Deleted(service) => BTreeMap::from([(service.name, None)]),
        Change::Reset(services) => {
            let mut all: BTreeMap<Name, Option<Service>> =
                cluster.services().map(|(name, _)| (name.clone(), None)).collect();
            all.extend(
                services
                    .into_iter()
                    .map(|service| (service.name.clone(), Some(service))),
            );
            all
        }
    }
}
