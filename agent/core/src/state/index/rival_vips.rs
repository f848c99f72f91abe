//! Which VIPs show the Service that a packet was meant for: those that nothing else translates.

use super::ClusterIndex;
use super::vips::{ClaimedPort, OF_ONE, VipClaims, node_ports, vip, vips_of};
use crate::facts::{ObjectName, Service};
use epguard_common::{Addr, Vip};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

impl ClusterIndex {
    /// The VIPs of a Service that nothing else translates: on the others the Service that was meant
    /// is unknown. NodePorts are at the addresses of this node, or of all nodes, as sockets reach
    /// them beside a socket load balancer.
    pub(crate) fn unambiguous_vips(&self, service: &Service, at_all_nodes: bool) -> BTreeSet<Vip> {
        let all = vips_of(service).chain(self.node_port_vips(service, at_all_nodes));
        all.filter(|vip| self.other_claimant(vip, &service.name).is_none())
            .collect()
    }

    /// A Service, besides this one, that claims one of its VIPs.
    pub(crate) fn rival(&self, service: &Service) -> Option<&ObjectName> {
        let mut all = vips_of(service).chain(self.node_port_vips(service, false));
        all.find_map(|vip| match self.other_claimant(&vip, &service.name)? {
            Claimant::Service(name) => Some(name),
            Claimant::HostPort | Claimant::Former | Claimant::Unknown => None,
        })
    }

    /// The Services with VIPs that these claims may give a rival. At an address of a node, ports of
    /// Services meet NodePorts.
    pub(crate) fn beside(&self, claims: &VipClaims) -> HashSet<&ObjectName> {
        let mut addrs: BTreeSet<Addr> = claims.addrs.iter().copied().collect();
        let mut ports = claims.node_ports.clone();
        if addrs.iter().any(|addr| self.is_node_address(*addr)) {
            ports.extend(claims.ports.iter().copied());
        }
        if !claims.node_ports.is_empty() {
            addrs.extend(self.vips.own().chain(self.nodes.addresses()));
        }
        let at_addrs = addrs.iter().flat_map(|addr| self.vips.at_addr(*addr));
        let at_ports = ports
            .iter()
            .flat_map(|number| self.vips.at_node_port(*number));
        // Hashed: hundreds of Services may be at each of hundreds of addresses.
        at_addrs.chain(at_ports).collect()
    }

    /// Forgets what Services gave up, and forgotten pods had, a while ago. Returns the Services
    /// that have it now.
    pub(super) fn forget_former_claims(&mut self, now: Duration) -> BTreeSet<ObjectName> {
        let (host_ports, claims) = self.vips.forget_former(now);
        let at_host_ports = host_ports
            .into_iter()
            .flat_map(|port| self.vips.at_host_port(port));
        self.beside(&claims)
            .into_iter()
            .chain(at_host_ports)
            .cloned()
            .collect()
    }

    /// The Service that alone claims a VIP.
    pub(crate) fn only_claimant(&self, vip: &Vip) -> Option<&ObjectName> {
        let name = self.claimants(vip).next()?;
        self.other_claimant(vip, name).is_none().then_some(name)
    }

    /// The VIPs of a Service on this node, whatever else translates them; of one with more than are
    /// kept a part.
    pub(crate) fn claimed_vips(&self, service: &Service) -> impl Iterator<Item = Vip> {
        let at_node_ports = self.node_port_vips(service, false);
        vips_of(service).take(OF_ONE).chain(at_node_ports)
    }

    /// What else than this Service may translate a VIP on this node.
    fn other_claimant(&self, vip: &Vip, service: &ObjectName) -> Option<Claimant<'_>> {
        if let Some(other) = self.claimants(vip).find(|name| *name != service) {
            return Some(Claimant::Service(other));
        }
        if self.vips.is_host_port(vip) {
            return Some(Claimant::HostPort);
        }
        let is_formers = self.vips.was_claimed(ClaimedPort::Vip(*vip), service)
            || self.is_node_address(vip.addr)
                && self
                    .vips
                    .was_claimed(ClaimedPort::NodePort((vip.port, vip.protocol)), service);
        if is_formers {
            return Some(Claimant::Former);
        }
        let is_left_out =
            self.vips.may_be_left_out(vip) || self.vips.left_out.all.contains(service);
        is_left_out.then_some(Claimant::Unknown)
    }

    /// The Services that claim a VIP. At every address of a node are the NodePorts.
    pub(crate) fn claimants(&self, vip: &Vip) -> impl Iterator<Item = &ObjectName> {
        let at_port = if self.is_node_address(vip.addr) {
            Some(self.vips.at_node_port((vip.port, vip.protocol)))
        } else {
            None
        };
        self.vips
            .claimants(*vip)
            .chain(at_port.into_iter().flatten())
    }

    fn is_node_address(&self, addr: Addr) -> bool {
        self.vips.is_own(addr) || self.nodes.has_address(addr)
    }

    /// True if the NodePorts of a Service are, at the addresses of all nodes, no more VIPs than one
    /// Service may have.
    pub(crate) fn has_few_vips_at_all_nodes(&self, service: &Service) -> bool {
        let addrs: usize = self.nodes.iter().map(|node| node.addresses.len()).sum();
        node_ports(service).count() * addrs <= OF_ONE
    }

    fn node_port_vips(&self, service: &Service, at_all_nodes: bool) -> Vec<Vip> {
        let mut vips = Vec::new();
        for number in node_ports(service) {
            vips.extend(self.vips.own().map(|addr| vip(addr, number)));
            if at_all_nodes {
                let addrs = self.nodes.iter().flat_map(|node| &node.addresses);
                vips.extend(addrs.map(|addr| vip(*addr, number)));
            }
        }
        vips
    }
}

/// What translates a VIP.
enum Claimant<'a> {
    Service(&'a ObjectName),
    /// A pod of this node.
    HostPort,
    /// Open connections of a Service that had it until a while ago.
    Former,
    /// Perhaps a Service whose VIPs are not known.
    Unknown,
}
