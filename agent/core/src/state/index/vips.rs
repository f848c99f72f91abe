//! The Services behind each address, port and protocol that clients use.

use super::quota::{LeftOut, Quota};
use crate::facts::{Name, Service};
use crate::sorted_map::SortedMap;
use epguard_common::{Addr, Vip, capacity};
use std::collections::BTreeSet;

/// VIPs of one Service: SERVICES has no room for more of one namespace.
const OF_ONE: usize = capacity::SERVICES / 2;

/// VIPs of all Services.
const OF_ALL: usize = 16 * capacity::SERVICES;

/// The VIPs of all Services.
#[derive(Debug, Clone, Default)]
pub struct Vips {
    /// Addresses on which this node answers NodePorts.
    pub own: BTreeSet<Addr>,
    owners: SortedMap<(Vip, Name), ()>,
    room: Quota<OF_ALL>,
    /// Services for whose VIPs there is no room. Every VIP at their addresses, or at their NodePorts, is ambiguous.
    pub left_out: LeftOut<Addr, (u16, u8)>,
}

impl Vips {
    /// Adds the VIPs of a Service, all or none.
    pub fn add(&mut self, service: &Service) {
        if !self.fits(service) {
            self.left_out.add(&service.name, service.vips.iter().copied(), node_ports(service));
            return;
        }
        self.room.take(service.name.0.clone(), self.count(service));
        for vip in vips_of(&self.own, service) {
            self.owners.insert((vip, service.name.clone()), ());
        }
    }

    /// True if there is room for the VIPs of a Service.
    pub fn fits(&self, service: &Service) -> bool {
        let count = self.count(service);
        count <= OF_ONE && self.room.admits(&service.name.0, count)
    }

    /// Removes the VIPs of a Service, which must be the object that was added.
    pub fn remove(&mut self, service: &Service) {
        if self.left_out.remove(&service.name, service.vips.iter().copied(), node_ports(service)) {
            return;
        }
        self.room.give_back(&service.name.0, self.count(service));
        for vip in vips_of(&self.own, service) {
            self.owners.remove(&(vip, service.name.clone()));
        }
    }

    /// The VIPs of a Service that no other one claims: on the others the Service meant is unknown.
    pub fn unambiguous<'a>(&'a self, service: &'a Service) -> impl Iterator<Item = Vip> + 'a {
        vips_of(&self.own, service).filter(|vip| self.owner(vip).is_some())
    }

    /// The Service that alone claims a VIP.
    pub fn owner(&self, vip: &Vip) -> Option<&Name> {
        let mut owners = self.owners(*vip);
        let owner = owners.next().filter(|_| owners.next().is_none())?;
        let may_have_another = self.left_out.keys.contains_key(&vip.addr)
            || self.left_out.others.contains_key(&(vip.port, vip.protocol));
        (!may_have_another).then_some(owner)
    }

    /// The other Services that claim a VIP of this one; none if these are not known, because there is no room for the VIPs
    /// of this one.
    pub fn rivals<'a>(&'a self, service: &'a Service) -> Option<impl Iterator<Item = &'a Name>> {
        let owners = vips_of(&self.own, service).flat_map(|vip| self.owners(vip));
        let others = owners.filter(|owner| **owner != service.name);
        (!self.left_out.all.contains(&service.name)).then_some(others)
    }

    fn owners(&self, vip: Vip) -> impl Iterator<Item = &Name> {
        let from = self.owners.from((vip, Name::default())).map(|(pair, ())| pair);
        from.take_while(move |(own, _)| *own == vip).map(|(_, owner)| owner)
    }

    fn count(&self, service: &Service) -> usize {
        service.vips.len() * service.ports.len() + node_ports(service).count() * self.own.len()
    }
}

fn vips_of<'a>(own: &'a BTreeSet<Addr>, service: &'a Service) -> impl Iterator<Item = Vip> + 'a {
    service.ports.iter().flat_map(move |port| {
        let vip = move |addr: &Addr, number| Vip {
            addr: *addr,
            port: number,
            protocol: port.protocol.number(),
            reserved: 0,
        };
        let own = own.iter().filter(|_| port.node_port != 0).map(move |addr| vip(addr, port.node_port));
        service.vips.iter().map(move |addr| vip(addr, port.port)).chain(own)
    })
}

fn node_ports(service: &Service) -> impl Iterator<Item = (u16, u8)> {
    let ports = service.ports.iter().filter(|port| port.node_port != 0);
    ports.map(|port| (port.node_port, port.protocol.number()))
}
