//! The verdicts that a fact may have changed. Too many only costs time; one too few would be a
//! stale denial.

use super::index::ClusterIndex;
use super::index::cluster_index::all_but_in_part;
use super::index::endpoints::Touched;
use super::index::pods::{self, Record};
use super::index::vips::Claims;
use super::proof::Own;
use super::queue::{Ends, Scope, Scopes};
use crate::facts::{Change, Cidr, Fact, HostPort, Node, ObjectName, Service, Slice, Text};
use epguard_common::{Addr, Uid, UidState};
use std::collections::BTreeSet;
use std::time::Duration;

/// What has to be judged again.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Services to judge.
    pub services: Scopes,
    /// IPs whose owner may have changed.
    pub ips: BTreeSet<Addr>,
    /// Pods whose state may have changed.
    pub pods: BTreeSet<Uid>,
    /// Pods that published an IP, and since when they may have held it unpublished.
    pub published: Vec<(Uid, Addr, Duration)>,
    /// Whether orphan IPs have to be proven again, for another reason than what the rest shows: the
    /// node reported holders, or an owner changed a mode.
    pub orphan_ips: bool,
}

/// Applies a fact to the index; returns what has to be judged again.
pub fn update_index(cluster: &mut ClusterIndex, now: Duration, fact: Fact) -> Dirty {
    let mut dirty = Dirty::default();
    match fact {
        Fact::Pod(Change::Applied(pod)) => {
            dirty.changed_pod(cluster.pods.show(now, pod), cluster, now);
        }
        Fact::Pod(Change::Deleted(pod)) => {
            dirty.changed_pod(cluster.pods.delete(now, pod), cluster, now);
        }
        Fact::Slice(change) => {
            for (name, slice) in cluster.slices_by_name(change) {
                dirty.changed_slice(cluster, now, &name, slice);
            }
        }
        Fact::Pod(Change::Gone(pod)) => {
            dirty.changed_pod(cluster.pods.vanish(pod.uid), cluster, now);
        }
        Fact::Service(change) => {
            for (name, service) in cluster.services_by_name(change) {
                dirty.changed_service(cluster, now, &name, service);
            }
        }
        Fact::Node(change) => {
            let mut nodes = change.by_name(
                |node| &node.name,
                |part| all_but_in_part(part, cluster.nodes.names()),
            );
            nodes.retain_mut(|(name, node)| dirty.node(cluster, now, name, node.take()));
            dirty.ended_on(cluster, &nodes.into_iter().map(|(name, _)| name).collect());
        }
        Fact::Namespace(change) => {
            let known = &cluster.namespaces;
            let mut namespaces = change.by_name(
                |shown| &shown.name,
                |part| all_but_in_part(part, known.keys()),
            );
            namespaces.retain(|(name, shown)| cluster.set_namespace(name, shown.as_ref()));
            dirty.namespaces(
                cluster,
                &namespaces.into_iter().map(|(name, _)| name).collect(),
            );
        }
        // `Objects` applies lists of pods.
        Fact::Pod(Change::Reset(_) | Change::Part(_))
        | Fact::Presence(_)
        | Fact::NodeSeen(_)
        | Fact::ModePolicy(_) => {}
        Fact::SocketLb(is_there) => {
            if cluster.has_socket_lb != is_there {
                cluster.has_socket_lb = is_there;
                dirty.vips(cluster.stale.services());
            }
        }
        Fact::LocalAddresses(addresses) => {
            let changed = cluster.set_local(addresses);
            if !changed.is_empty() {
                dirty.vips(cluster.stale.services());
            }
            dirty.addresses(cluster, changed);
        }
    }
    dirty
}

impl Dirty {
    /// Adds what a change of a pod concerns.
    pub fn changed_pod(
        &mut self,
        touched: impl Into<Option<pods::Touched>>,
        cluster: &mut ClusterIndex,
        now: Duration,
    ) {
        let Some((uid, before)) = touched.into() else {
            return;
        };
        let before = before.as_ref();
        cluster.note_node(uid);
        let strayed = cluster.note_stray(now, uid);
        self.ranges(cluster, &strayed);
        for port in cluster.note_host_ports(before, uid) {
            self.host_port(cluster, port);
        }
        let had_ended = before.is_some_and(|record| record.uid_state != UidState::Live);
        if had_ended || cluster.has_ended(uid) {
            cluster.index_stale(uid);
        }
        self.published(cluster, uid, before);
        self.pod(cluster, uid, before);
        let services = cluster
            .endpoint_index
            .of_pod(uid)
            .map(|(service, _)| service);
        let services: BTreeSet<ObjectName> = services.cloned().collect();
        for service in &services {
            self.listed(cluster, service, uid);
            if cluster.pod_may_change_selector(service, before, cluster.pods.get(uid)) {
                self.selector(cluster, service);
            }
        }
    }

    /// Adds or replaces a slice, or removes it with `None`, and adds what that concerns.
    pub fn changed_slice(
        &mut self,
        cluster: &mut ClusterIndex,
        now: Duration,
        name: &ObjectName,
        slice: Option<Slice>,
    ) {
        let touched = cluster.endpoint_index.set(now, name, slice);
        self.changed_endpoints(touched, cluster);
    }

    /// Adds what a change of the endpoints of Services concerns.
    pub fn changed_endpoints(&mut self, touched: Touched, cluster: &mut ClusterIndex) {
        for (service, mut touched) in touched.services {
            let mut ips: BTreeSet<Addr> = touched.places.iter().map(|(ip, _)| *ip).collect();
            let places = touched.places.iter();
            let named: BTreeSet<(Uid, Addr)> = places
                .filter_map(|(ip, target)| target.map(|uid| (uid, *ip)))
                .collect();
            for (uid, ip) in &named {
                if cluster.index_stale_at(*uid, &service, *ip) {
                    // A live pod of its name is the Service's own from now on, whichever IP it has.
                    touched.all = true;
                }
                self.listed(cluster, &service, *uid);
                touched.doubts_selector |=
                    cluster.listing_may_change_selector(&service, cluster.pods.get(*uid));
            }
            if touched.doubts_selector {
                self.selector(cluster, &service);
            }
            if touched.all {
                self.service(&service);
            }
            if !ips.is_empty() {
                self.scope(&service).ips.append(&mut ips);
            }
            self.pods.extend(named.into_iter().map(|(uid, _)| uid));
        }
    }

    /// All endpoints of a Service that may be denied.
    pub fn of_service(name: &ObjectName) -> Self {
        let mut dirty = Self::default();
        dirty.service(name);
        dirty
    }

    /// Adds every Service and every IP.
    pub fn of_all(cluster: &ClusterIndex) -> Self {
        let mut dirty = Self {
            orphan_ips: true,
            ..Self::default()
        };
        for name in cluster.services.keys() {
            dirty.service(name);
        }
        for record in cluster.pods.iter() {
            dirty.pods.insert(record.pod.uid);
            dirty.ips.extend(record.pod.addresses());
        }
        dirty
    }

    /// Adds an IP of a Service.
    fn pair(&mut self, service: &ObjectName, ip: Addr) {
        self.scope(service).ips.insert(ip);
    }

    /// What is marked of a Service. By default its VIPs are.
    fn scope(&mut self, service: &ObjectName) -> &mut Scope {
        let scope = self.services.entry(service.clone()).or_default();
        scope.vips = true;
        scope
    }

    /// Adds IPs of Services.
    pub fn pairs<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a ObjectName, Addr)>) {
        for (service, ip) in pairs {
            self.pair(service, ip);
        }
    }

    /// Adds all endpoints of a Service that may be denied.
    fn service(&mut self, name: &ObjectName) {
        let scope = self.scope(name);
        (scope.all, scope.ends) = (true, Ends::All);
    }

    /// The same where a pod starts that may hold an IP without showing it, or starts no more.
    fn starts(&mut self, name: &ObjectName) {
        let scope = self.services.entry(name.clone()).or_default();
        (scope.all, scope.ends) = (true, scope.ends.max(Ends::ByStarts));
    }

    /// The same where denials may only begin.
    pub fn begins(&mut self, name: &ObjectName) {
        self.services.entry(name.clone()).or_default().all = true;
    }

    /// Adds the IPs that this node alone may hand out.
    fn own_range(&mut self, cluster: &ClusterIndex) {
        self.orphan_ips = true;
        self.ips
            .extend(cluster.claims_in_own_range().map(|(ip, _)| ip));
    }

    /// Adds what rests on the ranges of these nodes.
    pub fn ranges(&mut self, cluster: &ClusterIndex, nodes: &BTreeSet<Text>) {
        if nodes.contains(cluster.settings.node.as_str()) {
            self.own_range(cluster);
        }
        self.ended_on(cluster, nodes);
        for node in nodes {
            self.starting_on(cluster, node);
        }
    }

    /// Adds the Services of which a pod on the node may hold an IP without showing it. Whether it
    /// can have been given one of another node's range depends on its own node.
    fn starting_on(&mut self, cluster: &ClusterIndex, node: &str) {
        for record in cluster.pods.live_on(node) {
            self.owning(cluster, record);
        }
    }

    /// Adds the Services that a host port of this node can be taken for.
    fn host_port(&mut self, cluster: &ClusterIndex, port: HostPort) {
        let services = cluster.vips.at_host_port(port).into_iter();
        self.vips(services.filter(|service| cluster.stale.lists(service)));
    }

    /// Adds IPs that may have another owner, or that are judged from now on, or no longer.
    pub fn addresses(&mut self, cluster: &ClusterIndex, ips: impl IntoIterator<Item = Addr>) {
        for ip in ips {
            self.ips.insert(ip);
            self.listing(cluster, [ip]);
        }
    }

    /// Adds the Services of these Namespaces, and the pairs where a pod of one is meant, or shows
    /// the IP: nobody else's. And their dead pods of this node: the IPs of these may be orphans
    /// from now on.
    fn namespaces(&mut self, cluster: &ClusterIndex, names: &BTreeSet<Text>) {
        if names.is_empty() {
            return;
        }
        self.orphan_ips = true;
        for name in names {
            for service in cluster.stale.services_in(name) {
                self.service(service);
            }
            for record in cluster.pods.of_namespace(name) {
                let ips = cluster
                    .endpoint_index
                    .places
                    .ips(record.pod.uid)
                    .chain(record.pod.addresses());
                for ip in ips {
                    let services = cluster.endpoint_index.services_at(ip);
                    let stale = services.filter(|service| cluster.stale.has(service, ip));
                    self.pairs(stale.map(|service| (service, ip)));
                }
            }
        }
        let is_of = |record: &Record| names.contains(&record.pod.name.namespace);
        let dead = cluster.pods.dead_on(&cluster.settings.node);
        self.pods.extend(
            dead.filter(|record| is_of(record))
                .map(|record| record.pod.uid),
        );
    }

    fn published(&mut self, cluster: &ClusterIndex, uid: Uid, before: Option<&Record>) {
        let possible_holder = before.filter(|record| record.is_possible_holder());
        let Some((before, since)) =
            possible_holder.and_then(|record| Some((record, record.possible_holder_since?.into())))
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

    /// Adds a pod, the IPs that it shows, and the Services that list these IPs or the pod. While it
    /// may hold other IPs than it shows, adds every Service whose own it is.
    fn pod(&mut self, cluster: &ClusterIndex, uid: Uid, before: Option<&Record>) {
        self.pods.insert(uid);
        let mut ips: BTreeSet<Addr> = cluster.endpoint_index.places.ips(uid).collect();
        for record in before.into_iter().chain(cluster.pods.get(uid)) {
            self.ips.extend(record.pod.addresses());
            ips.extend(record.pod.addresses());
            self.owning(cluster, record);
        }
        self.listing(cluster, ips);
    }

    /// Adds the Services that list these IPs.
    fn listing(&mut self, cluster: &ClusterIndex, ips: impl IntoIterator<Item = Addr>) {
        for ip in ips {
            let services = cluster.endpoint_index.services_at(ip);
            self.pairs(services.map(|service| (service, ip)));
        }
    }

    /// Adds the pairs of a Service whose own a pod became that it lists, or no longer is.
    fn listed(&mut self, cluster: &ClusterIndex, name: &ObjectName, uid: Uid) {
        if cluster.service(name).is_none() {
            return;
        }
        let live = cluster.pods.get(uid).filter(|record| record.is_live());
        if live.is_some_and(|record| may_hold_unshown(cluster, name, record)) {
            self.starts(name);
        }
        let shown = live.into_iter().flat_map(|record| record.pod.addresses());
        self.pairs(
            shown
                .filter(|ip| cluster.stale.has(name, *ip))
                .map(|ip| (name, ip)),
        );
    }

    /// Adds all pairs of a Service whose selector may prove more or less since.
    pub fn selector(&mut self, cluster: &mut ClusterIndex, name: &ObjectName) {
        cluster.doubt_selector(name);
        self.service(name);
    }

    /// Adds the Services whose own a pod is that may hold one of their stale IPs without showing
    /// it.
    fn owning(&mut self, cluster: &ClusterIndex, record: &Record) {
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
                && Own::new(cluster, service).contains(&record.pod)
            {
                self.starts(name);
            }
        }
    }

    /// Adds or replaces a Service, or removes it with `None`, and adds what that concerns.
    pub fn changed_service(
        &mut self,
        cluster: &mut ClusterIndex,
        now: Duration,
        name: &ObjectName,
        service: Option<Service>,
    ) {
        let before = cluster.service(name).cloned();
        if before == service {
            return;
        }
        let was_left_out = cluster.vips.left_out.all.contains(name);
        cluster.set_service(now, name, service);
        let after = cluster.service(name);
        // All VIPs at the addresses of one that is left out are ambiguous.
        let is_same = was_left_out == cluster.vips.left_out.all.contains(name);
        let mut changed = Claims::default();
        for (one, other) in [(before.as_ref(), after), (after, before.as_ref())] {
            if let Some(one) = one {
                changed.add(Claims::beyond(one, other.filter(|_| is_same)));
                self.ips.extend(&one.proxied);
            }
        }
        self.ips.extend(&changed.addrs);
        self.beside(cluster, &changed);
        self.selector(cluster, name);
    }

    /// Adds the Services that these claims may give a rival.
    pub fn beside(&mut self, cluster: &ClusterIndex, claims: &Claims) {
        let others = cluster.beside(claims).into_iter();
        self.vips(others.filter(|other| cluster.stale.lists(other)));
    }

    /// Adds or replaces a node, or removes it with `None`, and adds what that concerns: its
    /// addresses, its own pods, and this node's range. True if it changed.
    fn node(
        &mut self,
        cluster: &mut ClusterIndex,
        now: Duration,
        name: &str,
        node: Option<Node>,
    ) -> bool {
        let before = cluster.nodes.get(name).cloned();
        if before == node {
            return false;
        }
        let zone = |node: &Option<Node>| node.as_ref().and_then(|node| node.zone.clone());
        if zone(&before) != zone(&node) {
            let redirects =
                |name: &&ObjectName| cluster.service(name).is_some_and(Service::redirects);
            self.vips(cluster.stale.services().filter(redirects));
        }
        if name == cluster.settings.node {
            self.own_range(cluster);
        }
        let both = before.iter().chain(&node);
        let addrs: Vec<Addr> = both
            .clone()
            .flat_map(|node| node.addresses.iter().copied())
            .collect();
        let of_object =
            |node: &Option<Node>| node.as_ref().map(|node| (node.uid, node.pod_cidrs.clone()));
        let is_same = of_object(&before) == of_object(&node);
        let ranges: Vec<Cidr> = both
            .filter(|_| !is_same)
            .flat_map(|node| node.pod_cidrs.iter().copied())
            .collect();
        cluster.set_node(now, name, node);
        if !is_same {
            self.starting_on(cluster, name);
        }
        for range in ranges {
            self.pairs(cluster.stale_in(range));
        }
        self.addresses(cluster, addrs.iter().copied());
        // NodePorts are there, too.
        self.beside(
            cluster,
            &Claims {
                addrs,
                ..Claims::default()
            },
        );
        if name == cluster.settings.node {
            // It answers NodePorts on its addresses.
            self.vips(cluster.stale.services());
            self.own_range(cluster);
            // Their deaths prove something from now on.
            let dead = cluster.pods.dead_on(name).map(|record| record.pod.uid);
            self.pods.extend(dead);
        }
        if cluster.has_socket_lb {
            self.vips(cluster.stale.services());
        }
        true
    }

    /// Adds the pairs that name an ended pod of one of the nodes.
    pub fn ended_on(&mut self, cluster: &ClusterIndex, nodes: &BTreeSet<Text>) {
        if !nodes.is_empty() {
            self.pairs(cluster.stale_of_nodes(nodes));
        }
    }

    /// Adds Services whose VIPs, or the places where their flows are redirected, may have changed.
    pub fn vips<'a>(&mut self, services: impl IntoIterator<Item = &'a ObjectName>) {
        for service in services {
            self.scope(service);
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
