//! The denials of one Service laid out in the tables, at the cost of what changed of it.

use super::alternatives::Alternatives;
use super::{Changes, Numbers, Tables};
use crate::counts::uncount;
use crate::facts::{ObjectName, Service, Text};
use crate::state::denials::Denials;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use crate::state::index::quota::{LeftOut, Quota, RETRIED};
use crate::state::orphan_ip::OrphanIp;
use crate::state::queue::Queue;
use epguard_common::{
    Action, Addr, Backends, Denial, DenialKey, ServiceNumber, Suspect, Uid, Vip, capacity,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The tables, and what each Service has in them.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    pub tables: Tables,
    /// Keys of the tables that may have changed.
    pub changes: Changes,
    pub numbers: Numbers,
    vips: BTreeMap<ObjectName, BTreeSet<Vip>>,
    /// Denials without room, and Services without room for their VIPs.
    refused: BTreeSet<(ObjectName, Endpoint)>,
    without_vips: LeftOut<(), ()>,
    /// The namespace whose share of SUSPECTS each IP with denials takes.
    suspects: HashMap<Addr, Text>,
    ips: Quota<{ capacity::SUSPECTS }>,
    denied: Quota<{ capacity::DENIED }>,
    services: Quota<{ capacity::SERVICES }>,
    backends: Quota<{ capacity::BACKENDS }>,
}

impl Layout {
    /// Empty tables, with these numbers of Services.
    pub fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            ..Self::default()
        }
    }

    /// True if packets to the Service are judged.
    pub fn has_vips(&self, name: &ObjectName) -> bool {
        self.vips.contains_key(name)
    }

    /// True if the tables show the IP as that of a terminating pod.
    pub fn counts_as_draining(&self, ip: Addr) -> bool {
        match self.tables.suspects.get(&ip) {
            Some(suspect) => suspect.flags & Suspect::DRAINING != 0,
            None => false,
        }
    }

    /// Lays out the denials of a Service at an IP, but for their backends.
    /// [`Layout::lay_out_suspect`] has to follow.
    pub fn lay_out_endpoints(&mut self, denials: &Denials, name: &ObjectName, ip: Addr) {
        let (first, last) = Endpoint::range_at(ip);
        let range = (name.clone(), first)..=(name.clone(), last);
        let refused = self.refused.extract_if(range, |_| true).count();
        uncount(&mut self.tables.refused, name.namespace.as_str(), refused);
        let mut gone = self.laid_out(name, &first, &last);
        for (endpoint, denied) in denials.of_service_at(name, ip) {
            let Some(number) = self.numbers.take(name) else {
                continue;
            };
            let key = key(endpoint, number);
            if !(gone.remove(&key) || self.takes(&name.namespace, ip)) {
                self.refused.insert((name.clone(), *endpoint));
                *self
                    .tables
                    .refused
                    .entry(name.namespace.to_string())
                    .or_default() += 1;
                continue;
            }
            let asked = denied.proven.action;
            if asked != Action::Redirect {
                self.put_backends(&name.namespace, key, &Backends::default());
            }
            let action = action(asked, self.tables.backends.contains_key(&key));
            self.tables.denied.insert(
                key,
                Denial {
                    stopped: denied.stopped.is_some().into(),
                    action,
                    ..denied.proven
                },
            );
            self.changes.denied.insert(key);
        }
        self.denied.give_back(&name.namespace, gone.len());
        for key in gone {
            self.tables.denied.remove(&key);
            self.changes.denied.insert(key);
            self.put_backends(&name.namespace, key, &Backends::default());
        }
    }

    /// The keys of a Service's denials at an IP.
    fn laid_out(
        &self,
        name: &ObjectName,
        first: &Endpoint,
        last: &Endpoint,
    ) -> BTreeSet<DenialKey> {
        let Some(number) = self.numbers.get(name) else {
            return BTreeSet::new();
        };
        let last = DenialKey {
            protocol: u8::MAX,
            ..key(last, number)
        };
        let further = self
            .tables
            .denied
            .from(key(first, number))
            .map(|(key, _)| *key);
        further.take_while(|key| *key <= last).collect()
    }

    /// Takes room for a new denial at an IP, if there is some.
    fn takes(&mut self, namespace: &Text, ip: Addr) -> bool {
        if !self.has_room(namespace, ip) {
            return false;
        }
        self.denied.take(namespace.clone(), 1);
        if !self.suspects.contains_key(&ip) {
            self.ips.take(namespace.clone(), 1);
            self.suspects.insert(ip, namespace.clone());
        }
        true
    }

    fn has_room(&self, namespace: &Text, ip: Addr) -> bool {
        let has_suspect = self.suspects.contains_key(&ip) || self.ips.admits(namespace, 1);
        has_suspect && self.denied.admits(namespace, 1)
    }

    /// Lays out the VIPs of a Service, if it has denials and is not suspended, and where its flows
    /// are redirected, unless more of it is to come: where they were redirected before it was
    /// suspended may be gone.
    pub fn lay_out_vips(
        &mut self,
        cluster: &ClusterIndex,
        denials: &Denials,
        name: &ObjectName,
        queue: &Queue,
    ) {
        let is_denied = denials.has_proven(name);
        let known = self.vips.remove(name).unwrap_or_default();
        self.services.give_back(&name.namespace, known.len());
        self.without_vips.all.remove(name);
        let number = self.numbers.get(name);
        let mut wanted = BTreeSet::new();
        if is_denied
            && number.is_some()
            && !queue.suspends(name)
            && let Some(service) = cluster.service(name)
        {
            match self.vips_with_room(cluster, service, &known) {
                Some(vips) => wanted = vips,
                None => {
                    self.without_vips.all.insert(name.clone());
                }
            }
        }
        let is_resumed = known.is_empty() && !wanted.is_empty();
        self.services.take(name.namespace.clone(), wanted.len());
        for vip in known.difference(&wanted) {
            // Another Service may have it by now.
            if self.tables.services.get(vip) == number.as_ref() {
                self.tables.services.remove(vip);
                self.changes.services.insert(*vip);
            }
        }
        if let Some(number) = number {
            for vip in &wanted {
                if self.tables.services.insert(*vip, number) != Some(number) {
                    self.changes.services.insert(*vip);
                }
            }
        }
        if !wanted.is_empty() {
            self.vips.insert(name.clone(), wanted);
        }
        if !is_denied {
            self.numbers.release(name);
            return;
        }
        if let Some(service) = cluster.service(name)
            && service.redirects()
            && (is_resumed || !queue.waits(name))
        {
            self.redirect(cluster, denials, service);
        }
    }

    /// The VIPs of a Service, as many as there is room for: with those at the addresses of other
    /// nodes, or without them, or none. `known` are those that it has.
    fn vips_with_room(
        &self,
        cluster: &ClusterIndex,
        service: &Service,
        known: &BTreeSet<Vip>,
    ) -> Option<BTreeSet<Vip>> {
        let is_at_all_nodes = cluster.has_socket_lb && cluster.has_few_vips_at_all_nodes(service);
        let reaches: &[bool] = if is_at_all_nodes {
            &[true, false]
        } else {
            &[false]
        };
        for at_all_nodes in reaches {
            let wanted = cluster.unambiguous_vips(service, *at_all_nodes);
            if wanted.is_subset(known)
                || self.services.admits(&service.name.namespace, wanted.len())
            {
                return Some(wanted);
            }
        }
        None
    }

    /// Lays out where the flows of a Service are redirected.
    fn redirect(&mut self, cluster: &ClusterIndex, denials: &Denials, service: &Service) {
        let name = &service.name;
        let Some(number) = self.numbers.get(name) else {
            return;
        };
        let alternatives = Alternatives::find(cluster, denials, service);
        for (endpoint, _) in denials.of_service(name) {
            let key = key(endpoint, number);
            let Some(mut denial) = self.tables.denied.get(&key).copied() else {
                continue;
            };
            let is_redirected = self.put_backends(
                &name.namespace,
                key,
                &alternatives.to(cluster, name, endpoint),
            );
            denial.action = action(Action::Redirect, is_redirected);
            self.tables.denied.insert(key, denial);
            self.changes.denied.insert(key);
        }
    }

    /// Stores the endpoints that flows to a denied one are redirected to. False if there are none,
    /// or no room.
    fn put_backends(&mut self, namespace: &Text, key: DenialKey, backends: &Backends) -> bool {
        let is_known = self.tables.backends.remove(&key);
        self.backends.give_back(namespace, usize::from(is_known));
        if backends.count == 0 || !is_known && !self.backends.admits(namespace, 1) {
            return false;
        }
        self.backends.take(namespace.clone(), 1);
        self.tables.backends.insert(key, *backends);
        true
    }

    /// Lays out whether an IP has denials, and whether it is a terminating endpoint's.
    pub fn lay_out_suspect(&mut self, cluster: &ClusterIndex, denials: &Denials, ip: Addr) {
        let mut suspect = Suspect::default();
        if let Some(dead) = self.meant_at(cluster, denials, ip) {
            suspect.flags |= Suspect::DENIED;
            suspect.dead_uid = dead;
        } else if let Some(namespace) = self.suspects.remove(&ip) {
            self.ips.give_back(&namespace, 1);
        }
        if cluster.is_draining(ip) {
            suspect.flags |= Suspect::DRAINING;
        }
        let suspects = &mut self.tables.suspects;
        let is_denied = suspect.flags & Suspect::DENIED != 0;
        let fits = is_denied || suspects.len() < capacity::SUSPECTS || suspects.contains_key(&ip);
        self.changes.suspects.insert(ip);
        if suspect.flags == 0 || !fits {
            suspects.remove(&ip);
        } else {
            suspects.insert(ip, suspect);
        }
    }

    /// The pod that one of the denials at an IP is meant for that are in the tables; rather of one
    /// that is carried out.
    fn meant_at(&self, cluster: &ClusterIndex, denials: &Denials, ip: Addr) -> Option<Uid> {
        let mut last = None;
        for name in cluster.endpoint_index.services_at(ip) {
            let Some(number) = self.numbers.get(name) else {
                continue;
            };
            for (endpoint, denied) in denials.of_service_at(name, ip) {
                if !self.tables.denied.contains_key(&key(endpoint, number)) {
                    continue;
                }
                let rank = (denied.stopped.is_none(), name, endpoint);
                if last.is_none_or(|(highest, _)| rank >= highest) {
                    last = Some((rank, denied.proven.dead_uid));
                }
            }
        }
        last.map(|(_, dead)| dead)
    }

    /// True if TERMINATED has the IP for the same dead pod, and packets from it lifted that only if
    /// they have now.
    pub fn has_terminated(&self, ip: Addr, orphan_ip: &OrphanIp) -> bool {
        let Some(before) = self.tables.terminated.get(&ip) else {
            return false;
        };
        let is_lifted_as_before = before.lifted.is_none() || orphan_ip.lifted.is_some();
        before.dead == orphan_ip.dead && is_lifted_as_before
    }

    /// Sets what TERMINATED should hold. Returns the IPs that changed.
    pub fn set_terminated(&mut self, terminated: BTreeMap<Addr, OrphanIp>) -> BTreeSet<Addr> {
        let before = std::mem::replace(&mut self.tables.terminated, terminated);
        let after = &self.tables.terminated;
        let mut changed = BTreeSet::new();
        for ip in before.keys().chain(after.keys()) {
            if before.get(ip) != after.get(ip) {
                changed.insert(*ip);
            }
        }
        changed
    }

    /// What had no room and may have some now: denials, and Services without VIPs.
    pub fn retriable(&mut self) -> BTreeMap<ObjectName, BTreeSet<Addr>> {
        let mut found: BTreeMap<ObjectName, BTreeSet<Addr>> = BTreeMap::new();
        let may_fit = |(name, endpoint): &&(ObjectName, Endpoint)| {
            self.has_room(&name.namespace, endpoint.ip)
        };
        for (name, endpoint) in self.refused.iter().filter(may_fit).take(RETRIED) {
            found.entry(name.clone()).or_default().insert(endpoint.ip);
        }
        for name in self.without_vips.take_turn(RETRIED) {
            found.entry(name).or_default();
        }
        found
    }
}

/// The key of a denial of the Service with this number.
fn key(endpoint: &Endpoint, service: ServiceNumber) -> DenialKey {
    DenialKey::new(
        endpoint.ip,
        service,
        endpoint.port,
        endpoint.protocol.number(),
    )
}

/// The action of a denial: one that should redirect, and has nothing to redirect to, rejects.
fn action(asked: Action, is_redirected: bool) -> Action {
    if asked == Action::Redirect && !is_redirected {
        Action::Reject
    } else {
        asked
    }
}
