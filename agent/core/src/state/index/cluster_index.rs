//! Index of all facts, for the lookups of the proof.

use super::Settings;
use super::endpoints::EndpointIndex;
use super::listed_nodes::ListedNodes;
use super::namespaces::Namespaces;
use super::node_ranges::NodeRanges;
use super::pods::PodIndex;
use super::stale_index::StaleIndex;
use super::vips::Vips;
use crate::facts::{Name, Node, Pod, Service, Text};
use crate::state::not_proven::{Exemption, NotProven};
use epguard_common::{Addr, Mode, Uid, UidState, Vip};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// The accumulated facts.
#[derive(Debug, Clone)]
pub struct ClusterIndex {
    /// The agent's settings, which never change.
    pub settings: Settings,
    /// All pods.
    pub pods: PodIndex,
    /// All endpoints.
    pub endpoint_index: EndpointIndex,
    /// All Namespaces.
    pub namespaces: Namespaces,
    /// The endpoints that may be denied.
    pub stale: StaleIndex,
    services: BTreeMap<Name, Service>,
    pub(in crate::state) vips: Vips,
    pub(in crate::state) nodes: HashMap<Text, Node>,
    pub(in crate::state) listed_nodes: ListedNodes,
    pub(in crate::state) ranges_of_nodes: NodeRanges,
    local: Vec<Addr>,
    /// Addresses of nodes, as Nodes show them. Never judged, even after the node is gone.
    pub(in crate::state) infrastructure: HashSet<Addr>,
    /// Namespaces whose pods showed an IP outside of their node's range, and when last.
    pub(in crate::state) strays: BTreeMap<Text, Duration>,
    /// Whether there was more than one such namespace.
    pub(in crate::state) ranges_are_disproved: bool,
    /// Names of nodes that were ever virtual kubelets: their pods outlive the Node object, or the mark on it.
    virtual_kubelets: BTreeSet<Text>,
}

impl ClusterIndex {
    /// An empty index.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pods: PodIndex::default(),
            endpoint_index: EndpointIndex::default(),
            namespaces: Namespaces::default(),
            stale: StaleIndex::default(),
            services: BTreeMap::new(),
            vips: Vips::new(Vec::new()),
            nodes: HashMap::new(),
            listed_nodes: ListedNodes::default(),
            ranges_of_nodes: NodeRanges::default(),
            local: Vec::new(),
            infrastructure: HashSet::new(),
            strays: BTreeMap::new(),
            ranges_are_disproved: false,
            virtual_kubelets: BTreeSet::new(),
        }
    }

    /// Drops what the API has shown, except facts that make the agent more cautious for good.
    pub fn start_over(&mut self) {
        *self = Self {
            local: std::mem::take(&mut self.local),
            infrastructure: std::mem::take(&mut self.infrastructure),
            strays: std::mem::take(&mut self.strays),
            ranges_are_disproved: self.ranges_are_disproved,
            listed_nodes: std::mem::take(&mut self.listed_nodes),
            virtual_kubelets: std::mem::take(&mut self.virtual_kubelets),
            ..Self::new(self.settings.clone())
        };
    }

    /// A Service by name.
    #[must_use]
    pub fn service(&self, name: &Name) -> Option<&Service> {
        self.services.get(name)
    }

    /// All Services.
    pub fn services(&self) -> impl Iterator<Item = (&Name, &Service)> {
        self.services.iter()
    }

    /// Services of one namespace.
    pub fn services_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Name, &'a Service)> {
        let first = (Text::from(namespace), Text::default());
        self.services
            .range(first..)
            .take_while(move |(name, _)| name.0 == namespace)
    }

    /// Adds or replaces a Service; removes it with `None`.
    pub fn set_service(&mut self, name: &Name, fact: Option<Service>) {
        if let Some(old) = self.services.remove(name) {
            self.vips.remove(&old);
        }
        if let Some(fact) = fact {
            self.vips.add(&fact);
            self.services.insert(name.clone(), fact);
        }
    }

    /// The addresses and ports of a Service, without those that another Service claims too: there, the Service meant is
    /// unknown.
    pub fn unambiguous_vips<'a>(&'a self, service: &'a Service) -> impl Iterator<Item = Vip> + 'a {
        self.vips.unambiguous(service)
    }

    /// Addresses on which this node answers NodePorts.
    fn own_addresses(&self) -> BTreeSet<Addr> {
        let shown = self
            .nodes
            .get(self.settings.node.as_str())
            .map(|node| node.addresses.as_slice())
            .unwrap_or_default();
        self.local.iter().chain(shown).copied().collect()
    }

    /// Sets the addresses of the node's own interfaces. Returns those that came or went.
    pub fn set_local(&mut self, addresses: Vec<Addr>) -> BTreeSet<Addr> {
        let own = self.own_addresses();
        let before: BTreeSet<Addr> = std::mem::take(&mut self.local).into_iter().collect();
        let after: BTreeSet<Addr> = addresses.into_iter().collect();
        self.local = after.iter().copied().collect();
        if own != self.own_addresses() {
            self.index_vips();
        }
        before.symmetric_difference(&after).copied().collect()
    }

    /// Adds or replaces a node; removes it with `None`. Returns the addresses that are never judged from now on.
    pub fn set_node(&mut self, name: &str, fact: Option<Node>) -> Vec<Addr> {
        let own = (name == self.settings.node).then(|| self.own_addresses());
        if let Some(before) = self.nodes.remove(name) {
            self.ranges_of_nodes.remove(&before);
        }
        let mut new = Vec::new();
        if let Some(node) = fact {
            let addresses = node.addresses.iter().copied();
            new.extend(addresses.filter(|addr| self.infrastructure.insert(*addr)));
            if node.virtual_kubelet {
                self.virtual_kubelets.insert(node.name.clone());
            }
            self.ranges_of_nodes.add(&node);
            self.nodes.insert(node.name.clone(), node);
        }
        if own.is_some_and(|own| own != self.own_addresses()) {
            self.index_vips();
        }
        new
    }

    /// Names of all nodes.
    pub fn node_names(&self) -> impl Iterator<Item = &Text> {
        self.nodes.keys()
    }

    /// A node by name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    fn index_vips(&mut self) {
        self.vips = Vips::new(self.own_addresses().into_iter().collect());
        for service in self.services.values() {
            self.vips.add(service);
        }
    }

    /// Node addresses and this node's own interfaces (gateways, tunnels) are never judged.
    #[must_use]
    pub fn is_infrastructure(&self, ip: Addr) -> bool {
        self.infrastructure.contains(&ip) || self.local.contains(&ip)
    }

    /// The reason why no endpoint at the IP is ever denied; none if one may be.
    #[must_use]
    pub fn spared(&self, ip: Addr) -> Option<NotProven> {
        if self.is_infrastructure(ip) {
            Some(NotProven::NodeAddress)
        } else {
            (!self.settings.ranges.cover(ip)).then_some(NotProven::OutOfRange)
        }
    }

    /// True if the death of a pod proves anything.
    #[must_use]
    pub fn is_proof(&self, pod: &Pod) -> bool {
        self.exempt(pod).is_none()
    }

    /// The reason why a pod's death proves nothing; none if it does.
    #[must_use]
    pub fn exempt(&self, pod: &Pod) -> Option<Exemption> {
        [
            (self.bound_of_pod(pod) == Mode::Off, Exemption::OptedOut),
            (pod.static_ip, Exemption::StaticIp),
            (pod.host_network, Exemption::HostNetwork),
            (
                self.may_be_virtual(pod.node.as_deref()),
                Exemption::VirtualKubelet,
            ),
        ]
        .into_iter()
        .find_map(|(holds, why)| holds.then_some(why))
    }

    /// Whether a node is a virtual kubelet, or ever was, or is too new to tell.
    #[must_use]
    pub fn may_be_virtual(&self, node: Option<&str>) -> bool {
        node.is_some_and(|node| self.virtual_kubelets.contains(node) || self.is_new(node))
    }

    /// The Service that alone claims a VIP.
    #[must_use]
    pub fn service_at(&self, vip: &Vip) -> Option<&Name> {
        self.vips.owner(vip)
    }

    /// The node with this boot id.
    #[must_use]
    pub fn node_that_booted(&self, boot_id: Uid) -> Option<Text> {
        let mut nodes = self.nodes.values().filter(|_| boot_id != Uid::NONE);
        nodes
            .find(|node| node.boot_id == boot_id)
            .map(|node| node.name.clone())
    }

    /// A node's boot id; none if unknown.
    #[must_use]
    pub fn boot_id(&self, node: Option<&str>) -> Uid {
        node.and_then(|node| self.nodes.get(node))
            .map(|node| node.boot_id)
            .unwrap_or_default()
    }

    /// True if a slice of any Service lists the IP for a target that is not proven dead, or a slice that was left out
    /// lists the IP.
    #[must_use]
    pub fn listed_alive_anywhere(&self, ip: Addr) -> bool {
        let dead = |target: Option<Uid>| {
            target
                .and_then(|uid| self.pods.get(uid))
                .is_some_and(|record| record.uid_state == UidState::Dead)
        };
        let listed_alive = self.endpoint_index.services_at(ip).any(|name| {
            let targets = self.endpoint_index.at(name, ip);
            let mut targets = targets.flat_map(|(_, targets)| targets.iter());
            targets.any(|(target, listing)| listing.is_current() && !dead(target))
        });
        listed_alive || self.endpoint_index.leaves_out_at(ip)
    }
}
