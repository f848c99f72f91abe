//! What translates each address, port and protocol on this node: a VIP shows the Service that a
//! packet was meant for only if nothing else translates it.

use super::former::Former;
use super::quota::{LeftOut, Quota};
use crate::counts::{Counts, Groups, uncount, ungroup};
use crate::facts::{HostPort, ObjectName, Protocol, Service};
use epguard_common::{Addr, Vip, capacity};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// VIPs of one Service that are kept.
pub const OF_ONE: usize = 4_096;

/// VIPs of all Services.
const OF_ALL: usize = 16 * capacity::SERVICES;

/// Those of one namespace. A change of a Service concerns all Services at its addresses, at once.
const OF_NAMESPACE: usize = OF_ONE + OF_ONE / 2;

/// A port and the number of its protocol.
pub type PortNumber = (u16, u8);

/// What a Service claims: an address with a port, or a node port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimedPort {
    Vip(Vip),
    NodePort(PortNumber),
}

/// The VIPs of all Services, and the host ports of this node's pods.
#[derive(Debug, Clone, Default)]
pub struct Vips {
    /// Addresses of this node, without those of its loopback.
    own: BTreeSet<Addr>,
    /// Each with the Services that claim it; without node ports.
    claims: BTreeSet<(Vip, ObjectName)>,
    /// The same by address.
    by_addr: Groups<Addr, ObjectName>,
    node_ports: Groups<PortNumber, ObjectName>,
    /// Of this node's pods, each with how many claim it.
    host_ports: Counts<HostPort>,
    /// Those of pods that were forgotten a while ago and may still run.
    former_host_ports: Former<HostPort>,
    /// Claims that Services gave up a while ago.
    former: Former<(ClaimedPort, ObjectName)>,
    room: Quota<OF_ALL, OF_NAMESPACE>,
    /// Services for whose VIPs there is no room. Every VIP at their addresses, or at their
    /// NodePorts, is ambiguous.
    pub left_out: LeftOut<Addr, PortNumber>,
}

impl Vips {
    /// Adds the VIPs of a Service, all or none.
    pub fn add(&mut self, service: &Service) {
        for number in node_ports(service) {
            self.node_ports
                .entry(number)
                .or_default()
                .insert(service.name.clone());
        }
        if !self.fits(service) {
            self.left_out.add(
                &service.name,
                service.vips.iter().copied(),
                node_ports(service),
            );
            return;
        }
        self.room
            .take(service.name.namespace.clone(), count(service));
        for addr in &service.vips {
            self.by_addr
                .entry(*addr)
                .or_default()
                .insert(service.name.clone());
        }
        for vip in vips_of(service) {
            self.claims.insert((vip, service.name.clone()));
        }
    }

    /// True if all VIPs of a Service are known, and there is room for them.
    pub fn fits(&self, service: &Service) -> bool {
        let count = count(service);
        !service.partial && count <= OF_ONE && self.room.admits(&service.name.namespace, count)
    }

    /// Removes the VIPs of a Service, which must be the object that was added.
    pub fn remove(&mut self, service: &Service) {
        for number in node_ports(service) {
            ungroup(&mut self.node_ports, &number, &service.name);
        }
        if self.left_out.remove(
            &service.name,
            service.vips.iter().copied(),
            node_ports(service),
        ) {
            return;
        }
        self.room.give_back(&service.name.namespace, count(service));
        for addr in &service.vips {
            ungroup(&mut self.by_addr, addr, &service.name);
        }
        for vip in vips_of(service) {
            self.claims.remove(&(vip, service.name.clone()));
        }
    }

    /// Notes what a Service gave up. A connection that it led to a pod stays open, whoever has the
    /// VIP then.
    pub fn note_former(&mut self, now: Duration, before: &Service, after: Option<&Service>) {
        // Compared part by part: a Service can have very many pairs of address and port.
        let addrs: BTreeSet<Addr> = after
            .into_iter()
            .flat_map(|after| after.vips.iter().copied())
            .collect();
        let all_ports: BTreeSet<PortNumber> = after.into_iter().flat_map(ports).collect();
        let at_nodes: BTreeSet<PortNumber> = after.into_iter().flat_map(node_ports).collect();
        let gone_ports: Vec<PortNumber> = ports(before)
            .filter(|number| !all_ports.contains(number))
            .collect();
        let gone_addrs = before.vips.iter().filter(|addr| !addrs.contains(addr));
        let at_gone = gone_addrs.flat_map(|addr| ports(before).map(|number| vip(*addr, number)));
        let kept_addrs = before.vips.iter().filter(|addr| addrs.contains(addr));
        let at_kept =
            kept_addrs.flat_map(|addr| gone_ports.iter().map(|number| vip(*addr, *number)));
        let gone_vips = at_gone.chain(at_kept).map(ClaimedPort::Vip);
        let gone_node_ports = node_ports(before).filter(|number| !at_nodes.contains(number));
        for claim in gone_node_ports
            .map(ClaimedPort::NodePort)
            .chain(gone_vips)
            .take(OF_ONE)
        {
            self.former
                .add(now, &before.name.namespace, (claim, before.name.clone()));
        }
    }

    /// Keeps of all claims only that there were some: everything is listed anew.
    pub fn start_over(&mut self, now: Duration) -> Self {
        let mut former = std::mem::take(&mut self.former);
        let vips = self
            .claims
            .iter()
            .map(|(vip, name)| (ClaimedPort::Vip(*vip), name.clone()));
        let node_ports = self.node_ports.iter().flat_map(|(number, names)| {
            names
                .iter()
                .map(|name| (ClaimedPort::NodePort(*number), name.clone()))
        });
        former.add_all(now, vips.chain(node_ports));
        let mut former_host_ports = std::mem::take(&mut self.former_host_ports);
        former_host_ports.add_all(now, self.host_ports.keys().copied());
        Self {
            former_host_ports,
            former,
            ..Self::default()
        }
    }

    /// Forgets what Services gave up, and forgotten pods had, a while ago. Returns the host ports
    /// and the claims.
    pub fn forget_former(&mut self, now: Duration) -> (Vec<HostPort>, VipClaims) {
        let mut claims = VipClaims::default();
        for (claim, _) in self.former.forget(now) {
            match claim {
                ClaimedPort::Vip(vip) => {
                    claims.addrs.push(vip.addr);
                    claims.ports.push((vip.port, vip.protocol));
                }
                ClaimedPort::NodePort(number) => claims.node_ports.push(number),
            }
        }
        (self.former_host_ports.forget(now), claims)
    }

    /// True if another Service claimed it until a while ago.
    pub fn was_claimed(&self, claim: ClaimedPort, besides: &ObjectName) -> bool {
        let from = self
            .former
            .counts
            .range((claim, ObjectName::default())..)
            .map(|(key, _)| key);
        let mut of_claim = from.take_while(|(own, _)| *own == claim);
        of_claim.any(|(_, name)| name != besides)
    }

    /// Adds a host port of a pod of this node.
    pub fn add_host_port(&mut self, port: HostPort) {
        *self.host_ports.entry(port).or_default() += 1;
    }

    /// Removes a host port of a pod of this node.
    pub fn remove_host_port(&mut self, port: HostPort) {
        uncount(&mut self.host_ports, &port, 1);
    }

    /// Removes a host port of a pod that is forgotten and may still run.
    pub fn give_up_host_port(&mut self, now: Duration, namespace: &str, port: HostPort) {
        self.remove_host_port(port);
        self.former_host_ports.add(now, namespace, port);
    }

    /// Sets the addresses of this node, without those of its loopback.
    pub fn set_own(&mut self, own: BTreeSet<Addr>) {
        self.own = own;
    }

    /// True if this node has the address, or it is one of its loopback.
    pub fn is_own(&self, addr: Addr) -> bool {
        self.own.contains(&addr) || addr.ip().is_loopback()
    }

    /// Where processes of this node reach its NodePorts.
    pub fn own(&self) -> impl Iterator<Item = Addr> {
        self.own.iter().copied().chain(LOOPBACK)
    }

    /// The Services with VIPs at an address.
    pub fn at_addr(&self, addr: Addr) -> impl Iterator<Item = &ObjectName> {
        self.by_addr.get(&addr).into_iter().flatten()
    }

    /// The Services with a node port.
    pub fn at_node_port(&self, number: PortNumber) -> impl Iterator<Item = &ObjectName> {
        self.node_ports.get(&number).into_iter().flatten()
    }

    /// The Services that a host port of this node can be taken for.
    pub fn at_host_port(&self, port: HostPort) -> BTreeSet<&ObjectName> {
        let addrs: Vec<Addr> = match port.addr {
            Some(addr) => vec![addr],
            None => self.own.iter().copied().collect(),
        };
        let number = (port.port, port.protocol.number());
        let at_addrs = addrs.iter().filter_map(|addr| self.by_addr.get(addr));
        let at_port = self
            .node_ports
            .iter()
            .filter(|(own, _)| port.port == 0 || **own == number);
        at_addrs
            .chain(at_port.map(|(_, names)| names))
            .flatten()
            .collect()
    }

    /// The Services that claim a VIP, node ports aside.
    pub fn claimants(&self, vip: Vip) -> impl Iterator<Item = &ObjectName> {
        let from = self.claims.range((vip, ObjectName::default())..);
        from.take_while(move |(own, _)| *own == vip)
            .map(|(_, name)| name)
    }

    /// True if a pod of this node has the VIP as a host port.
    pub fn is_host_port(&self, vip: &Vip) -> bool {
        let Some(protocol) = Protocol::from_repr(vip.protocol) else {
            return false;
        };
        let is_own = self.is_own(vip.addr);
        let addrs = [Some(vip.addr), None]
            .into_iter()
            .filter(|addr| addr.is_some() || is_own);
        let mut keys = addrs.flat_map(|addr| {
            [vip.port, 0].map(|port| HostPort {
                addr,
                port,
                protocol,
            })
        });
        keys.any(|key| self.host_ports.contains_key(&key) || self.former_host_ports.contains(&key))
    }

    /// True if a Service without room may have the VIP.
    pub fn may_be_left_out(&self, vip: &Vip) -> bool {
        let number = (vip.port, vip.protocol);
        self.left_out.keys.contains_key(&vip.addr) || self.left_out.others.contains_key(&number)
    }
}

/// Addresses and node ports that a Service claims.
#[derive(Debug, Default)]
pub struct VipClaims {
    pub addrs: Vec<Addr>,
    /// At these addresses.
    pub ports: Vec<PortNumber>,
    pub node_ports: Vec<PortNumber>,
}

impl VipClaims {
    /// Adds those of another Service. Each node's addresses are looked up once for all of them.
    pub fn add(&mut self, mut other: Self) {
        self.addrs.append(&mut other.addrs);
        self.ports.append(&mut other.ports);
        self.node_ports.append(&mut other.node_ports);
    }

    /// Those of a Service that another version of it does not claim. Other ports are claims to all
    /// its addresses.
    pub fn beyond(service: &Service, other: Option<&Service>) -> Self {
        let same_ports = other.filter(|other| other.ports == service.ports);
        let is_new_addr = |addr: &&Addr| same_ports.is_none_or(|other| !other.vips.contains(addr));
        let known: BTreeSet<PortNumber> = other.into_iter().flat_map(node_ports).collect();
        Self {
            addrs: service.vips.iter().filter(is_new_addr).copied().collect(),
            ports: service
                .ports
                .iter()
                .map(|port| (port.port, port.protocol.number()))
                .collect(),
            node_ports: node_ports(service)
                .filter(|number| !known.contains(number))
                .collect(),
        }
    }
}

/// Where processes of a node reach its NodePorts, too.
const LOOPBACK: [Addr; 2] = [
    Addr::v4(Ipv4Addr::LOCALHOST.octets()),
    Addr::v6(Ipv6Addr::LOCALHOST.octets()),
];

pub(super) const fn vip(addr: Addr, (port, protocol): PortNumber) -> Vip {
    Vip {
        addr,
        port,
        protocol,
        reserved: 0,
    }
}

pub(super) fn vips_of(service: &Service) -> impl Iterator<Item = Vip> {
    ports(service).flat_map(|number| service.vips.iter().map(move |addr| vip(*addr, number)))
}

fn ports(service: &Service) -> impl Iterator<Item = PortNumber> {
    service
        .ports
        .iter()
        .map(|port| (port.port, port.protocol.number()))
}

pub(super) fn node_ports(service: &Service) -> impl Iterator<Item = PortNumber> {
    let ports = service.ports.iter().filter(|port| port.node_port != 0);
    ports.map(|port| (port.node_port, port.protocol.number()))
}

/// How many VIPs a Service has, with its node ports.
pub fn count(service: &Service) -> usize {
    service.vips.len() * service.ports.len() + node_ports(service).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ServicePort;
    use crate::state::{ClusterIndex, Settings};

    #[test]
    fn one_turn_takes_in_about_as_many_vips_as_one_service_may_have() {
        let mut cluster = ClusterIndex::new(Settings::default());
        cluster.vips.room.take("others".into(), OF_ALL);
        for number in 0..8 {
            let name: ObjectName = ObjectName::new(format!("flood-{number}"), "wide");
            let port = |port| ServicePort {
                port,
                node_port: 0,
                protocol: Protocol::Tcp,
            };
            let service = Service {
                name: name.clone(),
                vips: (0..64)
                    .map(|last| Addr::v4([10, 96, number, last]))
                    .collect(),
                ports: (0..32).map(port).collect(),
                ..Service::default()
            };
            cluster.set_service(Duration::ZERO, &name, Some(service));
        }
        cluster.vips.room.give_back("others", OF_ALL);
        let turns: Vec<usize> = (0..5).map(|_| cluster.retry_vips().len()).collect();
        assert_eq!(turns, [2, 2, 2, 2, 0]);
    }
}
