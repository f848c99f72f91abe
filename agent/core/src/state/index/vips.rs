//! The Services behind each address, port and protocol that clients use.

use super::quota::{Quota, Waiting};
use crate::counts::Counts;
use crate::facts::{Name, Service};
use epguard_common::{Addr, Vip, capacity};
use smallvec::SmallVec;
use std::collections::HashMap;

/// VIPs of one Service: SERVICES has no room for more of one namespace.
const OF_ONE: usize = capacity::SERVICES / 2;

/// VIPs of all Services.
const OF_ALL: usize = 16 * capacity::SERVICES;

/// The VIPs of all Services.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Vips {
    /// Addresses on which this node answers NodePorts.
    own: Vec<Addr>,
    owners: HashMap<Vip, SmallVec<[Name; 1]>>,
    room: Quota<OF_ALL>,
    pub left_out: LeftOut,
}

/// Services for whose VIPs there is no room. Every VIP that they may claim is ambiguous.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct LeftOut {
    pub services: Waiting,
    addresses: Counts<Addr>,
    node_ports: Counts<(u16, u8)>,
}

impl Vips {
    /// None of any Service, for a node with these addresses.
    pub(in crate::state) fn new(own: Vec<Addr>) -> Self {
        Self { own, ..Self::default() }
    }

    /// Adds the VIPs of a Service, all or none.
    pub(in crate::state) fn add(&mut self, service: &Service) {
        let (namespace, count) = (&service.name.0, self.count(service));
        if count > OF_ONE || !self.room.admits(namespace, count) {
            self.left_out.add(service);
            return;
        }
        self.room.take(namespace.clone(), count);
        let vips: Vec<Vip> = self.vips_of(service).collect();
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
        let vips: Vec<Vip> = self.vips_of(service).collect();
        for vip in vips {
            if let Some(owners) = self.owners.get_mut(&vip) {
                owners.retain(|owner| *owner != service.name);
                if owners.is_empty() {
                    self.owners.remove(&vip);
                }
            }
        }
    }

    /// The VIPs of a Service that no other one claims: on the others the Service meant is unknown.
    pub(in crate::state) fn unambiguous<'a>(
        &'a self,
        service: &'a Service,
    ) -> impl Iterator<Item = Vip> + 'a {
        let left_out = self.left_out.services.all.contains(&service.name);
        let vips = self.vips_of(service).take_while(move |_| !left_out);
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
        let owners = self.vips_of(service).filter_map(|vip| self.owners.get(&vip));
        let others = owners.flatten().filter(|owner| **owner != service.name);
        (!self.left_out.services.all.contains(&service.name)).then_some(others)
    }

    fn vips_of<'a>(&'a self, service: &'a Service) -> impl Iterator<Item = Vip> + 'a {
        service.ports.iter().flat_map(move |port| {
            let vip = move |addr: &Addr, number| Vip {
                addr: *addr,
                port: number,
                protocol: port.protocol.number(),
                reserved: 0,
            };
            let own = self.own.iter().filter(|_| port.node_port != 0);
            let own = own.map(move |addr| vip(addr, port.node_port));
            service.vips.iter().map(move |addr| vip(addr, port.port)).chain(own)
        })
    }

    fn count(&self, service: &Service) -> usize {
        let node_ports = service.ports.iter().filter(|port| port.node_port != 0);
        service.vips.len() * service.ports.len() + node_ports.count() * self.own.len()
    }
}

impl LeftOut {
    fn add(&mut self, service: &Service) {
        self.services.all.insert(service.name.clone());
        for addr in &service.vips {
            self.addresses.add(*addr, 1);
        }
        for port in node_ports(service) {
            self.node_ports.add(port, 1);
        }
    }

    fn remove(&mut self, service: &Service) -> bool {
        let known = self.services.all.remove(&service.name);
        for addr in service.vips.iter().filter(|_| known) {
            self.addresses.remove(addr, 1);
        }
        for port in node_ports(service).filter(|_| known) {
            self.node_ports.remove(&port, 1);
        }
        known
    }

    fn may_claim(&self, vip: &Vip) -> bool {
        self.addresses.has(&vip.addr) || self.node_ports.has(&(vip.port, vip.protocol))
    }
}

fn node_ports(service: &Service) -> impl Iterator<Item = (u16, u8)> {
    let ports = service.ports.iter().filter(|port| port.node_port != 0);
    ports.map(|port| (port.node_port, port.protocol.number()))
}
