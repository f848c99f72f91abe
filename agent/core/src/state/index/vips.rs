//! The Services behind each address, port and protocol that clients use.

use super::quota::{Quota, take_turn};
use crate::facts::{Name, Service, Text};
use epguard_common::{Addr, Vip, capacity};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// VIPs of one Service: SERVICES has no room for more of one namespace.
const OF_ONE: usize = capacity::SERVICES / 2;

/// VIPs of all Services.
const OF_ALL: usize = 16 * capacity::SERVICES;

/// The VIPs of all Services.
#[derive(Debug, Clone)]
pub(in crate::state) struct Vips {
    /// Addresses on which this node answers NodePorts.
    own: Vec<Addr>,
    owners: HashMap<Vip, SmallVec<[Name; 1]>>,
    room: Quota<Text>,
    left_out: LeftOut,
}

/// Services for whose VIPs there is no room. Every VIP that they may claim is ambiguous.
#[derive(Debug, Clone, Default)]
struct LeftOut {
    services: BTreeSet<Name>,
    /// The one of them that was tried last.
    last: Name,
    addresses: HashMap<Addr, usize>,
    node_ports: HashMap<(u16, u8), usize>,
}

impl Vips {
    /// An empty index, for a node with these addresses.
    pub(in crate::state) fn new(own: Vec<Addr>) -> Self {
        Self {
            own,
            owners: HashMap::new(),
            room: Quota::of(OF_ALL),
            left_out: LeftOut::default(),
        }
    }

    /// Adds the VIPs of a Service, all or none.
    pub(in crate::state) fn add(&mut self, service: &Service) {
        let (namespace, count) = (&service.name.0, self.count(service));
        if count > OF_ONE || !self.room.admits(namespace, count) {
            self.left_out.add(service);
            return;
        }
        self.room.take(namespace.clone(), count);
        let vips: Vec<Vip> = self.of(service).collect();
        for vip in vips {
            let owners = self.owners.entry(vip).or_default();
            if owners.last() != Some(&service.name) {
                owners.push(service.name.clone());
            }
        }
    }

    /// Adds the VIPs of a Service that was left out, if there is room by now. False if there is none.
    pub(in crate::state) fn retry(&mut self, service: &Service) -> bool {
        let count = self.count(service);
        let fits = count <= OF_ONE && self.room.admits(&service.name.0, count);
        if fits && self.left_out.remove(service) {
            self.add(service);
        }
        fits
    }

    /// Removes the VIPs of a Service, which must be the object that was added.
    pub(in crate::state) fn remove(&mut self, service: &Service) {
        if self.left_out.remove(service) {
            return;
        }
        self.room.give_back(&service.name.0, self.count(service));
        let vips: Vec<Vip> = self.of(service).collect();
        for vip in vips {
            if let Some(owners) = self.owners.get_mut(&vip) {
                owners.retain(|owner| *owner != service.name);
                if owners.is_empty() {
                    self.owners.remove(&vip);
                }
            }
        }
    }

    /// The VIPs of a Service that no other one claims.
    pub(in crate::state) fn unambiguous<'a>(
        &'a self,
        service: &'a Service,
    ) -> impl Iterator<Item = Vip> + 'a {
        let left_out = self.left_out.services.contains(&service.name);
        let vips = self.of(service).take_while(move |_| !left_out);
        vips.filter(|vip| self.owners.get(vip).is_none_or(|owners| owners.len() == 1))
            .filter(|vip| !self.left_out.may_claim(vip))
    }

    /// The Service that alone claims a VIP.
    pub(in crate::state) fn owner(&self, vip: &Vip) -> Option<&Name> {
        let owners = self.owners.get(vip).filter(|owners| owners.len() == 1)?;
        owners.first().filter(|_| !self.left_out.may_claim(vip))
    }

    /// The other Services that claim a VIP of this one; none if these are not known, because there is no room for the VIPs
    /// of this one.
    pub(in crate::state) fn rivals<'a>(
        &'a self,
        service: &'a Service,
    ) -> Option<impl Iterator<Item = &'a Name>> {
        let owners = self.of(service).filter_map(|vip| self.owners.get(&vip));
        let others = owners.flatten().filter(|owner| **owner != service.name);
        (!self.left_out.services.contains(&service.name)).then_some(others)
    }

    /// Services for whose VIPs there is no room.
    pub(in crate::state) fn left_out(&self) -> impl Iterator<Item = &Name> {
        self.left_out.services.iter()
    }

    /// The next of them, at most so many; after the last one the first again.
    pub(in crate::state) fn take_turn(&mut self, most: usize) -> Vec<Name> {
        take_turn(&self.left_out.services, &mut self.left_out.last, most)
    }

    fn of<'a>(&'a self, service: &'a Service) -> impl Iterator<Item = Vip> + 'a {
        service.ports.iter().flat_map(move |port| {
            let vip = move |addr: &Addr, number| Vip {
                addr: *addr,
                port: number,
                protocol: port.protocol.number(),
                reserved: 0,
            };
            let own = self.own.iter().filter(|_| port.node_port != 0);
            let own = own.map(move |addr| vip(addr, port.node_port));
            service
                .vips
                .iter()
                .map(move |addr| vip(addr, port.port))
                .chain(own)
        })
    }

    fn count(&self, service: &Service) -> usize {
        let node_ports = service.ports.iter().filter(|port| port.node_port != 0);
        service.vips.len() * service.ports.len() + node_ports.count() * self.own.len()
    }
}

impl LeftOut {
    fn add(&mut self, service: &Service) {
        self.services.insert(service.name.clone());
        for addr in &service.vips {
            *self.addresses.entry(*addr).or_default() += 1;
        }
        for port in node_ports(service) {
            *self.node_ports.entry(port).or_default() += 1;
        }
    }

    fn remove(&mut self, service: &Service) -> bool {
        let known = self.services.remove(&service.name);
        if known {
            service
                .vips
                .iter()
                .for_each(|addr| give_back(&mut self.addresses, addr));
            node_ports(service).for_each(|port| give_back(&mut self.node_ports, &port));
        }
        known
    }

    fn may_claim(&self, vip: &Vip) -> bool {
        let port = (vip.port, vip.protocol);
        self.addresses.contains_key(&vip.addr) || self.node_ports.contains_key(&port)
    }
}

fn node_ports(service: &Service) -> impl Iterator<Item = (u16, u8)> {
    let ports = service.ports.iter().filter(|port| port.node_port != 0);
    ports.map(|port| (port.node_port, port.protocol.number()))
}

/// Counts one less; removes the key at zero.
pub(in crate::state) fn give_back<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
