//! Index of all facts, for the lookups of the proof.

use super::Settings;
use super::addresses::Addresses;
use super::endpoints::{EndpointIndex, MEMORY};
use super::pods::PodIndex;
use super::quota::RETRIED;
use super::stale_index::StaleIndex;
use super::vips::Vips;
use crate::facts::{Change, Name, Namespace, Node, Pod, Selection, Service, Slice, Text};
use crate::state::not_proven::{Exemption, NotProven};
use epguard_common::{Addr, Mode, Uid, UidState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The accumulated facts.
#[derive(Debug, Clone, Default)]
pub struct ClusterIndex {
    /// The agent's settings, which never change.
    pub settings: Settings,
    /// All pods.
    pub pods: PodIndex,
    /// All endpoints.
    pub endpoint_index: EndpointIndex,
    /// What the annotations of all Namespaces allow at most.
    pub namespaces: HashMap<Text, Mode>,
    /// The endpoints that may be denied.
    pub stale: StaleIndex,
    /// All Services.
    pub services: BTreeMap<Name, Service>,
    /// Services with a selector whose slices list pods that it does not select: it proves nothing.
    pub(crate) unselective: BTreeSet<Name>,
    pub(crate) vips: Vips,
    /// All Nodes.
    pub nodes: HashMap<Text, Node>,
    /// Nodes that are gone, for [`MEMORY`]: when, and whether each was a virtual kubelet.
    gone: HashMap<Text, (Duration, bool)>,
    local: Vec<Addr>,
    node_addresses: Addresses,
    service_addresses: Addresses,
    /// When a pod last disproved this node's ranges.
    pub(crate) strayed: Option<Duration>,
}

/// Whose names a whole list would show; of a kind of which nobody asks for a part, a part shows nobody to be gone.
pub fn all_but_in_part<'a, N: Clone + 'a>(
    part: Option<(&Selection, &BTreeSet<Name>)>,
    known: impl Iterator<Item = &'a N>,
) -> Vec<N> {
    if part.is_some() { Vec::new() } else { known.cloned().collect() }
}

impl ClusterIndex {
    /// An empty index.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Drops what the API has shown, except facts that make the agent more cautious.
    pub(crate) fn start_over(&mut self, now: Duration) {
        let mut before = std::mem::replace(self, Self::new(self.settings.clone()));
        let nodes = before.nodes.into_values();
        let gone = nodes.map(|node| (node.name, (now, node.virtual_kubelet)));
        before.node_addresses.start_over(now);
        before.service_addresses.start_over(now);
        *self = Self {
            gone: gone.chain(before.gone).collect(),
            local: before.local,
            node_addresses: before.node_addresses,
            service_addresses: before.service_addresses,
            strayed: before.strayed,
            ..Self::new(before.settings)
        };
        self.pods.order = before.pods.order;
        self.index_vips();
    }

    /// Forgets Nodes and addresses that are gone for [`MEMORY`]; returns them.
    pub(crate) fn forget_gone(&mut self, now: Duration) -> (BTreeSet<Text>, Vec<Addr>) {
        let is_old = |_: &Text, (at, _): &mut (Duration, bool)| now.saturating_sub(*at) >= MEMORY;
        let nodes = self.gone.extract_if(is_old).map(|(node, _)| node).collect();
        let mut addresses = self.node_addresses.forget(now);
        addresses.extend(self.service_addresses.forget(now));
        (nodes, addresses)
    }

    /// A Service by name.
    pub fn service(&self, name: &Name) -> Option<&Service> {
        self.services.get(name)
    }

    /// The Services of a change, by name.
    pub(crate) fn services_by_name(&self, change: Change<Service>) -> Vec<(Name, Option<Service>)> {
        change.by_name(|service| &service.name, |part| all_but_in_part(part, self.services.keys()))
    }

    /// The slices of a change, by name.
    pub(crate) fn slices_by_name(&self, change: Change<Slice>) -> Vec<(Name, Option<Slice>)> {
        let known = |part: Option<(&Selection, &BTreeSet<Name>)>| {
            let known = self.endpoint_index.slices.iter().filter(|(name, slice)| {
                part.is_none_or(|(of, later)| of.has_slice(slice) && !later.contains(name))
            });
            known.map(|(name, _)| name.clone()).collect()
        };
        change.by_name(|slice| &slice.name, known)
    }

    /// Adds or replaces a Namespace; removes it with `None`. True if it allows something else now.
    pub(crate) fn set_namespace(&mut self, name: &Text, shown: Option<&Namespace>) -> bool {
        let before = match shown {
            Some(shown) => self.namespaces.insert(name.clone(), shown.bound),
            None => self.namespaces.remove(name),
        };
        before != shown.map(|shown| shown.bound)
    }

    /// Adds or replaces a Service; removes it with `None`.
    pub(crate) fn set_service(&mut self, now: Duration, name: &Name, fact: Option<Service>) {
        if let Some(old) = self.services.remove(name) {
            self.vips.remove(&old);
            self.service_addresses.remove(now, &old.vips);
        }
        if let Some(fact) = fact {
            self.vips.add(&fact);
            self.service_addresses.add(&fact.vips);
            self.services.insert(name.clone(), fact);
        }
    }

    /// Takes in the VIPs of Services that were left out and have room by now. True if there are such.
    pub(crate) fn retry_vips(&mut self) -> bool {
        let mut found = false;
        for name in self.vips.left_out.take_turn(RETRIED) {
            if let Some(service) = self.services.get(&name).filter(|service| self.vips.fits(service)) {
                self.vips.remove(service);
                self.vips.add(service);
                found = true;
            }
        }
        found
    }

    /// Sets the addresses of the node's own interfaces. Returns those that came or went.
    pub(crate) fn set_local(&mut self, addresses: Vec<Addr>) -> BTreeSet<Addr> {
        let before: BTreeSet<Addr> = std::mem::take(&mut self.local).into_iter().collect();
        let after: BTreeSet<Addr> = addresses.into_iter().collect();
        self.local = after.iter().copied().collect();
        self.index_vips();
        before.symmetric_difference(&after).copied().collect()
    }

    /// Adds or replaces a node; removes it with `None`. One that was a virtual kubelet stays one: its pods outlive the mark.
    pub(crate) fn set_node(&mut self, now: Duration, name: &str, fact: Option<Node>) {
        if let Some(before) = self.nodes.remove(name) {
            self.node_addresses.remove(now, &before.addresses);
            self.gone.insert(before.name, (now, before.virtual_kubelet));
        }
        if let Some(mut node) = fact {
            self.node_addresses.add(&node.addresses);
            let before = self.gone.remove(name);
            node.virtual_kubelet |= before.is_some_and(|(_, was_virtual)| was_virtual);
            self.nodes.insert(node.name.clone(), node);
        }
        if name == self.settings.node {
            self.index_vips();
            if self.has_strays() {
                self.strayed = Some(now);
            }
        }
    }

    /// How many nodes there are, or were within [`MEMORY`].
    pub(crate) fn count_nodes(&self) -> usize {
        self.nodes.len() + self.gone.len()
    }

    /// Adds all VIPs anew if the addresses changed on which this node answers NodePorts.
    fn index_vips(&mut self) {
        let shown = self.nodes.get(self.settings.node.as_str()).into_iter().flat_map(|node| &node.addresses);
        let own: BTreeSet<Addr> = self.local.iter().chain(shown).copied().collect();
        if self.vips.own != own {
            self.vips = Vips::default();
            self.vips.own = own;
            for service in self.services.values() {
                self.vips.add(service);
            }
        }
    }

    /// Addresses of nodes and of this node's own interfaces (gateways, tunnels) are never judged.
    pub(crate) fn is_infrastructure(&self, ip: Addr) -> bool {
        self.node_addresses.contains(ip)
            || self.local.contains(&ip)
            || self.pods.places.host_network.contains_key(&ip)
    }

    /// True if a terminating endpoint of this node has the IP: packets to it are only counted. The nodes of others count those.
    pub(crate) fn is_draining(&self, ip: Addr) -> bool {
        let mut publishing = self.pods.claimants(ip).take_while(|record| record.pod.ips.contains(&ip));
        let is_draining = publishing.any(|record| {
            let pod = &record.pod;
            record.is_live() && pod.deleting && self.is_own(pod) && self.endpoint_index.knows(pod.uid)
        });
        is_draining && !self.is_infrastructure(ip)
    }

    /// True if something else than a pod has the IP, so that it has no owner, and is no orphan.
    pub(crate) fn is_no_pods(&self, ip: Addr) -> bool {
        self.is_infrastructure(ip) || self.service_addresses.contains(ip)
    }

    /// The reason why no endpoint at the IP is ever denied; none if one may be.
    pub(crate) fn spared(&self, ip: Addr) -> Option<NotProven> {
        if self.is_infrastructure(ip) {
            Some(NotProven::NodeAddress)
        } else {
            (!self.settings.ranges.cover(ip)).then_some(NotProven::OutOfRange)
        }
    }

    /// The reason why a pod's death proves nothing; none if it does.
    pub fn exempt(&self, pod: &Pod) -> Option<Exemption> {
        [
            (self.bound_of_pod(pod) == Mode::Off, Exemption::OptedOut),
            (pod.static_ip, Exemption::StaticIp),
            (pod.host_network, Exemption::HostNetwork),
            (self.may_be_virtual(pod.node.as_deref()), Exemption::VirtualKubelet),
        ]
        .into_iter()
        .find_map(|(holds, why)| holds.then_some(why))
    }

    /// Whether a node is a virtual kubelet, or was, or is not known to be none.
    pub(crate) fn may_be_virtual(&self, node: Option<&str>) -> bool {
        let Some(name) = node else { return false };
        match (self.nodes.get(name), self.gone.get(name)) {
            (Some(node), _) => node.virtual_kubelet,
            (None, Some((_, was_virtual))) => *was_virtual,
            (None, None) => true,
        }
    }

    /// Highest mode for packets that are meant for a pod, or would reach it. Of a pod that only an earlier process saw,
    /// nothing but the bound is known.
    pub(crate) fn bound_of_pod(&self, pod: &Pod) -> Mode {
        let inherited = pod.name.0.is_empty();
        if inherited {
            return pod.bound;
        }
        pod.bound.lower(self.bound_of_namespace(&pod.name.0))
    }

    /// Most that a Namespace allows: `observe` while it is unknown.
    pub(crate) fn bound_of_namespace(&self, name: &str) -> Mode {
        self.namespaces.get(name).copied().unwrap_or(Mode::Observe)
    }

    /// True if the selector of the Service does not tell which pods are its own.
    pub(crate) fn proves_nothing(&self, service: &Service) -> bool {
        service.selector.is_none() || self.unselective.contains(&service.name)
    }

    /// Notes whether the selector of a Service proves anything. True if that changed.
    ///
    /// The labels of a pod that only an earlier process saw are not known: it shows nothing beside a pod that the selector does
    /// select, and else that the selector may prove nothing.
    pub(crate) fn note_unselective(&mut self, name: &Name) -> bool {
        let service = self.service(name).filter(|service| service.selector.is_some());
        let is_unselective = service.is_some_and(|service| {
            let (mut is_unknown, mut is_selected) = (false, false);
            // Most endpoints of an IP name the same pod.
            let mut last = None;
            for (endpoint, targets) in self.endpoint_index.endpoints_of(name) {
                for (target, listing) in targets.iter() {
                    if target.is_some() && listing.foreign {
                        return true;
                    }
                    let is_new = last.replace((endpoint.ip, target)) != Some((endpoint.ip, target));
                    let Some(record) = target.filter(|_| is_new).and_then(|uid| self.pods.get(uid)) else {
                        continue;
                    };
                    match (record.pod.name.1.is_empty(), service.selects(&record.pod)) {
                        (true, _) => is_unknown = true,
                        (false, true) => is_selected = true,
                        (false, false) => return true,
                    }
                }
            }
            is_unknown && !is_selected
        });
        if is_unselective { self.unselective.insert(name.clone()) } else { self.unselective.remove(name) }
    }

    /// A node's boot id; none if unknown.
    pub(crate) fn boot_id(&self, node: Option<&str>) -> Uid {
        node.and_then(|node| self.nodes.get(node)).map(|node| node.boot_id).unwrap_or_default()
    }

    /// True if a slice of any Service lists the IP for a target that is not proven dead, or a slice that was left out
    /// lists the IP.
    pub(crate) fn listed_alive_anywhere(&self, ip: Addr) -> bool {
        let dead = |target: Option<Uid>| {
            target.and_then(|uid| self.pods.get(uid)).is_some_and(|record| record.uid_state == UidState::Dead)
        };
        let listed_alive = self.endpoint_index.services_at(ip).any(|name| {
            let targets = self.endpoint_index.at(name, ip);
            let mut targets = targets.flat_map(|(_, targets)| targets.iter());
            targets.any(|(target, listing)| listing.is_current() && !dead(target))
        });
        listed_alive || self.endpoint_index.left_out.others.contains_key(&ip)
    }
}
