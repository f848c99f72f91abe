//! What has to be judged again after a change of the index. Too much only costs time; one verdict
//! too few would be a stale denial.

use super::denials::Denials;
use super::index::ClusterIndex;
use super::index::changed::{Changed, ChangedEndpoints, ChangedPod};
use super::index::pods::Record;
use super::proof::OwnPods;
use super::queue::{Ends, Scope, Scopes};
use crate::facts::{HostPort, ObjectName, Service, Text};
use epguard_common::{Addr, Uid, UidState};
use std::collections::BTreeSet;
use std::time::Duration;

/// What has to be judged again.
#[derive(Debug, Default)]
pub struct Affected {
    /// Services to judge.
    pub services: Scopes,
    /// IPs whose owner may have changed.
    pub ips: BTreeSet<Addr>,
    /// Pods whose state may have changed.
    pub pods: BTreeSet<Uid>,
    /// Pods that published an IP.
    pub published: Vec<PublishedIp>,
    /// Whether orphan IPs have to be proven again, for another reason than what the rest shows: the
    /// node reported holders, or an owner changed a mode.
    pub orphan_ips: bool,
}

/// An IP that a possible holder published.
#[derive(Debug, Clone, Copy)]
pub struct PublishedIp {
    /// The pod.
    pub uid: Uid,
    /// The IP.
    pub ip: Addr,
    /// Since when it may have held the IP unpublished.
    pub possible_holder_since: Duration,
}

/// What a change of the index affects.
pub fn affected(changed: &Changed, cluster: &ClusterIndex) -> Affected {
    let mut affected = Affected::default();
    affected.add(changed, cluster);
    affected
}

impl Affected {
    /// Orphan IPs, and nothing else.
    pub fn only_orphan_ips() -> Self {
        Self {
            orphan_ips: true,
            ..Self::default()
        }
    }

    /// All endpoints of a Service that may be denied.
    pub fn only_service(name: &ObjectName) -> Self {
        let mut affected = Self::default();
        affected.mark_service(name);
        affected
    }

    /// Every Service and every IP.
    pub fn everything(cluster: &ClusterIndex) -> Self {
        let mut affected = Self::only_orphan_ips();
        for name in cluster.services.keys() {
            affected.mark_service(name);
        }
        for record in cluster.pods.iter() {
            affected.pods.insert(record.pod.uid);
            affected.ips.extend(record.pod.addresses());
        }
        affected
    }

    /// Adds what a change of the index affects.
    pub fn add(&mut self, changed: &Changed, cluster: &ClusterIndex) {
        for pod in &changed.pods {
            self.add_pod(cluster, pod);
        }
        for (service, endpoints) in &changed.endpoints {
            self.add_endpoints(cluster, service, endpoints);
        }
        for service in &changed.selectors {
            self.mark_service(service);
        }
        for port in &changed.host_ports {
            self.add_host_port(cluster, *port);
        }
        self.mark_stale_vips(cluster, cluster.beside(&changed.claims));
        self.mark_stale_vips(cluster, &changed.heirs);
        self.add_nodes(cluster, changed);
        self.add_namespaces(cluster, &changed.namespaces);
        self.ips.extend(&changed.owned_ips);
        for ip in &changed.addresses {
            self.ips.insert(*ip);
            self.mark_listing(cluster, *ip);
        }
        if changed.all_vips {
            self.mark_vips(cluster.stale.services());
        }
    }

    /// Adds what rests on the order in which pods claimed IPs, after a list has levelled that.
    pub fn add_levelled(&mut self, cluster: &ClusterIndex, denials: &Denials) {
        for (service, endpoint, denied) in denials.iter() {
            let proven = &denied.proven;
            if proven.uid_state == UidState::Retired && proven.owner_uid != Uid::NONE {
                self.mark_pair(service, endpoint.ip);
            }
        }
        self.ips.extend(cluster.pods.shared_ips());
    }

    /// All IPs that it names, of owners and of endpoints.
    pub fn all_ips(&self) -> impl Iterator<Item = Addr> {
        let of_services = self.services.values().flat_map(|scope| &scope.ips);
        self.ips.iter().chain(of_services).copied()
    }

    /// Marks IPs of Services.
    pub fn mark_pairs<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a ObjectName, Addr)>) {
        for (service, ip) in pairs {
            self.mark_pair(service, ip);
        }
    }

    /// Marks Services whose VIPs, or the places where their flows are redirected, may have changed.
    pub fn mark_vips<'a>(&mut self, services: impl IntoIterator<Item = &'a ObjectName>) {
        for service in services {
            self.scope_of(service);
        }
    }

    /// Marks all endpoints of a Service that may be denied.
    pub fn mark_service(&mut self, name: &ObjectName) {
        let scope = self.scope_of(name);
        scope.all = true;
        scope.ends = Ends::All;
    }

    /// The same where denials may only begin.
    pub fn mark_beginning(&mut self, name: &ObjectName) {
        self.services.entry(name.clone()).or_default().all = true;
    }

    /// The same where a pod starts that may hold an IP without showing it, or starts no more.
    fn mark_starting(&mut self, name: &ObjectName) {
        let scope = self.services.entry(name.clone()).or_default();
        scope.all = true;
        scope.ends = scope.ends.max(Ends::ByStarts);
    }

    fn mark_pair(&mut self, service: &ObjectName, ip: Addr) {
        self.scope_of(service).ips.insert(ip);
    }

    /// Marks the Services that list an IP, there.
    fn mark_listing(&mut self, cluster: &ClusterIndex, ip: Addr) {
        for service in cluster.endpoint_index.services_at(ip) {
            self.mark_pair(service, ip);
        }
    }

    /// Marks the VIPs of those of the Services that list an ended pod: no others have denials.
    fn mark_stale_vips<'a>(
        &mut self,
        cluster: &ClusterIndex,
        services: impl IntoIterator<Item = &'a ObjectName>,
    ) {
        for service in services {
            if cluster.stale.lists(service) {
                self.scope_of(service);
            }
        }
    }

    /// What is marked of a Service. By default its VIPs are.
    fn scope_of(&mut self, service: &ObjectName) -> &mut Scope {
        let scope = self.services.entry(service.clone()).or_default();
        scope.vips = true;
        scope
    }

    /// Adds a pod, the IPs that it shows, and the Services that list these IPs or the pod. While it
    /// may hold other IPs than it shows, adds every Service whose own it is.
    fn add_pod(&mut self, cluster: &ClusterIndex, pod: &ChangedPod) {
        let after = cluster.pods.get(pod.uid);
        self.add_published(pod, after);
        self.pods.insert(pod.uid);
        let mut ips: BTreeSet<Addr> = cluster.endpoint_index.places.ips(pod.uid).collect();
        for record in pod.before.iter().chain(after) {
            self.ips.extend(record.pod.addresses());
            ips.extend(record.pod.addresses());
            self.mark_owning(cluster, record);
        }
        for ip in ips {
            self.mark_listing(cluster, ip);
        }
        for service in cluster.endpoint_index.services_of_pod(pod.uid) {
            self.add_listed_pod(cluster, &service, pod.uid);
        }
    }

    fn add_published(&mut self, pod: &ChangedPod, after: Option<&Record>) {
        let (Some(before), Some(after)) = (&pod.before, after) else {
            return;
        };
        let Some(since) = before.possible_holder_since else {
            return;
        };
        if !before.is_possible_holder() {
            return;
        }
        for ip in &after.pod.ips {
            if !before.pod.ips.contains(ip) {
                self.published.push(PublishedIp {
                    uid: pod.uid,
                    ip: *ip,
                    possible_holder_since: since.into(),
                });
            }
        }
    }

    fn add_endpoints(
        &mut self,
        cluster: &ClusterIndex,
        service: &ObjectName,
        endpoints: &ChangedEndpoints,
    ) {
        for (uid, _) in endpoints.named() {
            self.add_listed_pod(cluster, service, uid);
            self.pods.insert(uid);
        }
        if endpoints.all {
            self.mark_service(service);
        }
        if !endpoints.places.is_empty() {
            let mut ips: BTreeSet<Addr> = endpoints.places.iter().map(|(ip, _)| *ip).collect();
            self.scope_of(service).ips.append(&mut ips);
        }
    }

    /// Adds the pairs of a Service whose own a pod became that it lists, or no longer is.
    fn add_listed_pod(&mut self, cluster: &ClusterIndex, name: &ObjectName, uid: Uid) {
        let Some(record) = cluster.pods.get(uid) else {
            return;
        };
        if cluster.service(name).is_none() || !record.is_live() {
            return;
        }
        if may_hold_unshown(cluster, name, record) {
            self.mark_starting(name);
        }
        for ip in record.pod.addresses() {
            if cluster.stale.has(name, ip) {
                self.mark_pair(name, ip);
            }
        }
    }

    /// Adds the Services that a host port of this node can be taken for.
    fn add_host_port(&mut self, cluster: &ClusterIndex, port: HostPort) {
        self.mark_stale_vips(cluster, cluster.vips.at_host_port(port));
    }

    fn add_nodes(&mut self, cluster: &ClusterIndex, changed: &Changed) {
        let own = cluster.settings.node.as_str();
        if changed.counting_ranges.contains(own) {
            self.orphan_ips = true;
            let claimed = cluster.claims_in_own_range().map(|(ip, _)| ip);
            self.ips.extend(claimed);
        }
        for nodes in [&changed.counting_ranges, &changed.nodes] {
            if !nodes.is_empty() {
                self.mark_pairs(cluster.stale_of_nodes(nodes));
            }
        }
        // Whether a pod can have been given an IP of another node's range depends on its own node.
        for node in changed
            .counting_ranges
            .iter()
            .chain(&changed.replaced_nodes)
        {
            for record in cluster.pods.live_on(node) {
                self.mark_owning(cluster, record);
            }
        }
        for range in &changed.node_ranges {
            self.mark_pairs(cluster.stale.in_range(*range));
        }
        if changed.zones {
            for name in cluster.stale.services() {
                if cluster.service(name).is_some_and(Service::redirects) {
                    self.scope_of(name);
                }
            }
        }
        if changed.nodes.contains(own) {
            self.orphan_ips = true;
            // Their deaths prove something from now on.
            let dead = cluster.pods.dead_on(own).map(|record| record.pod.uid);
            self.pods.extend(dead);
        }
    }

    /// Adds the Services of these Namespaces, and the pairs where a pod of one is meant, or shows
    /// the IP: nobody else's. And their dead pods of this node: the IPs of these may be orphans
    /// from now on.
    fn add_namespaces(&mut self, cluster: &ClusterIndex, names: &BTreeSet<Text>) {
        if names.is_empty() {
            return;
        }
        self.orphan_ips = true;
        for name in names {
            for service in cluster.stale.services_in(name) {
                self.mark_service(service);
            }
            for record in cluster.pods.of_namespace(name) {
                let listed = cluster.endpoint_index.places.ips(record.pod.uid);
                for ip in listed.chain(record.pod.addresses()) {
                    for service in cluster.endpoint_index.services_at(ip) {
                        if cluster.stale.has(service, ip) {
                            self.mark_pair(service, ip);
                        }
                    }
                }
            }
        }
        for record in cluster.pods.dead_on(&cluster.settings.node) {
            if names.contains(&record.pod.name.namespace) {
                self.pods.insert(record.pod.uid);
            }
        }
    }

    /// Marks the Services whose own a pod is that may hold one of their stale IPs without showing
    /// it.
    fn mark_owning(&mut self, cluster: &ClusterIndex, record: &Record) {
        if !record.is_possible_holder() && record.only_family().is_none() {
            return;
        }
        let namespace = &record.pod.name.namespace;
        let of_namespace = cluster.stale.services_in(namespace);
        let guests = cluster.endpoint_index.guests_in(namespace);
        let listing = cluster
            .endpoint_index
            .of_pod(record.pod.uid)
            .map(|(service, _)| service);
        let elsewhere = listing.filter(|service| service.namespace != *namespace);
        for name in of_namespace.chain(guests).chain(elsewhere) {
            let Some(service) = cluster.service(name) else {
                continue;
            };
            if may_hold_unshown(cluster, name, record)
                && OwnPods::new(cluster, service).contains(&record.pod)
            {
                self.mark_starting(name);
            }
        }
    }
}

/// True if the pod may hold a stale IP of the Service without showing it.
fn may_hold_unshown(cluster: &ClusterIndex, service: &ObjectName, record: &Record) -> bool {
    if record.is_possible_holder() {
        return cluster.stale.lists(service);
    }
    record
        .only_family()
        .is_some_and(|is_v4| cluster.stale.has_of_family(service, !is_v4))
}
