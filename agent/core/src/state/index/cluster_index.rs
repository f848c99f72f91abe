//! Index of all facts, for the lookups of the proof.

use super::Settings;
use super::addresses::Addresses;
use super::endpoints::EndpointIndex;
use super::nodes::NodeIndex;
use super::pods::{Kubelet, PodIndex, Record};
use super::quota::RETRIED;
use super::selectors::Selectors;
use super::stale_index::StaleIndex;
use super::vips::{self, Vips};
use crate::facts::{Namespace, ObjectName, Pod, Service, Text};
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
    pub services: BTreeMap<ObjectName, Service>,
    /// How many of them redirect flows.
    pub(crate) redirecting: usize,
    pub(super) selectors: Selectors,
    pub(crate) vips: Vips,
    /// All Nodes.
    pub nodes: NodeIndex,
    /// Services of which a denial was wrong: they are only observed.
    pub(crate) demoted: BTreeSet<ObjectName>,
    /// A socket load balancer was found: sockets of this node reach NodePorts at the addresses of
    /// all nodes.
    pub(crate) has_socket_lb: bool,
    /// The newest resourceVersion that any watch has shown since everything was listed anew.
    pub(crate) resource_version: u64,
    local: Vec<Addr>,
    service_addresses: Addresses,
}

impl ClusterIndex {
    /// An empty index.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Drops what the API has shown, except facts that make the agent more cautious.
    pub(crate) fn start_over(&mut self, now: Duration) {
        let mut before = std::mem::replace(self, Self::new(self.settings.clone()));
        before.nodes.start_over(now);
        before.service_addresses.start_over(now);
        self.nodes = before.nodes;
        self.local = before.local;
        self.has_socket_lb = before.has_socket_lb;
        self.demoted = before.demoted;
        self.service_addresses = before.service_addresses;
        self.vips = before.vips.start_over(now);
        self.pods.order = before.pods.order;
        self.index_vips();
    }

    /// Forgets Nodes and addresses that are gone for a while; returns them.
    pub(super) fn forget_gone(&mut self, now: Duration) -> (BTreeSet<Text>, Vec<Addr>) {
        let (nodes, mut addresses) = self.nodes.forget(now);
        addresses.extend(self.service_addresses.forget(now));
        (nodes, addresses)
    }

    /// Bounds a Service to `observe`, because a denial of it was wrong. False if it is already.
    pub(crate) fn demote(&mut self, service: &ObjectName) -> bool {
        self.demoted.insert(service.clone())
    }

    /// Ends that for a Service, or for all. Returns those for which it ends.
    pub(crate) fn promote(&mut self, service: Option<&ObjectName>) -> Vec<ObjectName> {
        self.demoted
            .extract_if(.., |name| service.is_none_or(|service| service == name))
            .collect()
    }

    /// Takes in a resourceVersion that a watch has shown.
    pub(crate) fn see_resource_version(&mut self, version: u64) {
        self.resource_version = self.resource_version.max(version);
    }

    /// A Service by name.
    pub fn service(&self, name: &ObjectName) -> Option<&Service> {
        self.services.get(name)
    }

    /// Adds or replaces a Namespace; removes it with `None`. True if it allows something else now.
    pub(super) fn set_namespace(&mut self, name: &Text, shown: Option<&Namespace>) -> bool {
        let before = match shown {
            Some(shown) => self.namespaces.insert(name.clone(), shown.bound),
            None => self.namespaces.remove(name),
        };
        before != shown.map(|shown| shown.bound)
    }

    /// Adds or replaces a Service; removes it with `None`.
    pub(super) fn set_service(&mut self, now: Duration, name: &ObjectName, fact: Option<Service>) {
        if let Some(old) = self.services.remove(name) {
            self.redirecting -= usize::from(old.redirects());
            self.vips.remove(&old);
            self.vips.note_former(now, &old, fact.as_ref());
            self.service_addresses
                .remove(now, &name.namespace, &old.vips);
            self.service_addresses
                .remove(now, &name.namespace, &old.proxied);
        }
        if let Some(fact) = fact {
            self.redirecting += usize::from(fact.redirects());
            self.vips.add(&fact);
            self.service_addresses.add(&fact.vips);
            self.service_addresses.add(&fact.proxied);
            self.services.insert(name.clone(), fact);
        } else {
            self.demoted.remove(name);
        }
    }

    /// Takes in the VIPs of Services that were left out and have room by now, until they are as
    /// many as one Service may have. Returns these Services.
    pub(super) fn retry_vips(&mut self) -> Vec<ObjectName> {
        let mut found = Vec::new();
        let mut taken = 0;
        for _ in 0..self.vips.left_out.all.len().min(RETRIED) {
            if taken >= vips::OF_ONE {
                break;
            }
            let Some(name) = self.vips.left_out.take_turn(1).pop() else {
                break;
            };
            if let Some(service) = self
                .services
                .get(&name)
                .filter(|service| self.vips.fits(service))
            {
                taken += vips::count(service);
                self.vips.remove(service);
                self.vips.add(service);
                found.push(name);
            }
        }
        found
    }

    /// Sets the addresses of the node's own interfaces. Returns those that came or went.
    pub(super) fn set_local(&mut self, addresses: Vec<Addr>) -> BTreeSet<Addr> {
        let before: BTreeSet<Addr> = std::mem::take(&mut self.local).into_iter().collect();
        let after: BTreeSet<Addr> = addresses.into_iter().collect();
        self.local = after.iter().copied().collect();
        self.index_vips();
        before.symmetric_difference(&after).copied().collect()
    }

    /// Notes the addresses on which this node answers NodePorts.
    pub(super) fn index_vips(&mut self) {
        let shown = self
            .nodes
            .get(&self.settings.node)
            .into_iter()
            .flat_map(|node| &node.addresses);
        self.vips
            .set_own(self.local.iter().chain(shown).copied().collect());
    }

    /// Addresses of nodes and of this node's own interfaces (gateways, tunnels) are never judged.
    pub(crate) fn is_infrastructure(&self, ip: Addr) -> bool {
        self.nodes.has_address(ip)
            || self.local.contains(&ip)
            || self.pods.places.host_network.contains_key(&ip)
    }

    /// True if a terminating endpoint of this node has the IP: packets to it are only counted. The
    /// nodes of others count those.
    pub(crate) fn is_draining(&self, ip: Addr) -> bool {
        let mut publishing = self
            .pods
            .claimants(ip)
            .take_while(|record| record.pod.ips.contains(&ip));
        let is_draining = publishing.any(|record| {
            let pod = &record.pod;
            record.is_live()
                && pod.deleting
                && self.is_own(pod)
                && self.endpoint_index.knows(pod.uid)
        });
        is_draining && !self.is_infrastructure(ip)
    }

    /// True if a pod of this node has the IP, or had it. The IP may be an orphan one day.
    pub(crate) fn names_own_pod(&self, ip: Addr) -> bool {
        self.pods
            .claimants(ip)
            .any(|record| self.is_own(&record.pod))
    }

    /// True if something else than a pod has the IP, so that it has no owner, and is no orphan.
    pub(crate) fn is_no_pods(&self, ip: Addr) -> bool {
        self.is_infrastructure(ip) || self.service_addresses.contains(ip)
    }

    /// The reason why no endpoint at the IP is ever denied; none if one may be.
    pub(crate) fn spared(&self, ip: Addr) -> Option<NotProven> {
        if self.is_infrastructure(ip) {
            Some(NotProven::NodeAddress)
        } else if self.settings.ranges.cover(ip) {
            None
        } else {
            Some(NotProven::OutOfRange)
        }
    }

    /// The reason why a pod's death proves nothing; none if it does. The Node of a bound pod that
    /// was never seen may be a virtual kubelet.
    pub fn exempt(&self, record: &Record) -> Option<Exemption> {
        let pod = &record.pod;
        let may_be_virtual = pod.node.is_some() && record.kubelet != Kubelet::Real;
        if self.bound_of_pod(pod) == Mode::Off {
            Some(Exemption::OptedOut)
        } else if pod.static_ip {
            Some(Exemption::StaticIp)
        } else if pod.host_network {
            Some(Exemption::HostNetwork)
        } else if may_be_virtual {
            Some(Exemption::VirtualKubelet)
        } else {
            None
        }
    }

    /// Highest mode for packets that are meant for a pod, or would reach it. Of a pod that only an
    /// earlier process saw, nothing but the bound is known.
    pub(crate) fn bound_of_pod(&self, pod: &Pod) -> Mode {
        let Some(name) = pod.known_name() else {
            return pod.bound;
        };
        pod.bound.lower(self.bound_of_namespace(&name.namespace))
    }

    /// True if it is known what the pod's Namespace allows, or that nothing but the pod's own bound
    /// ever will be.
    pub(crate) fn knows_namespace_of(&self, pod: &Pod) -> bool {
        match pod.known_name() {
            Some(name) => self.namespaces.contains_key(&name.namespace),
            None => true,
        }
    }

    /// Highest mode for packets that are meant for a Service.
    pub(crate) fn bound_of_service(&self, service: &Service) -> Mode {
        let bound = service
            .bound
            .lower(self.bound_of_namespace(&service.name.namespace));
        if self.demoted.contains(&service.name) {
            bound.lower(Mode::Observe)
        } else {
            bound
        }
    }

    /// Most that a Namespace allows: `observe` while it is unknown.
    pub(crate) fn bound_of_namespace(&self, name: &str) -> Mode {
        self.namespaces.get(name).copied().unwrap_or(Mode::Observe)
    }

    /// True if a slice of any Service lists the IP for a target that is not proven dead, as far as
    /// slices were taken in.
    pub(crate) fn listed_alive_anywhere(&self, ip: Addr) -> bool {
        let dead = |target: Option<Uid>| {
            target
                .and_then(|uid| self.pods.get(uid))
                .is_some_and(|record| record.uid_state == UidState::Dead)
        };
        self.endpoint_index.services_at(ip).any(|name| {
            let mut targets = self.endpoint_index.targets_at(name, ip);
            targets.any(|(target, listing)| listing.is_current() && !dead(target))
        })
    }
}
