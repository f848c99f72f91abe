//! Which endpoints each Service lists, and listed not long ago: conntrack, proxies and clients remember longer
//! than slices do.

use super::target_names::TargetNames;
use super::{Listing, Socket, Target};
use crate::facts::{Change, Endpoint, Name, Slice, SlicePort};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// How long an endpoint is remembered after the last slice that listed it and the last packet to it.
pub const MEMORY: Duration = Duration::from_mins(10);

/// Endpoints remembered per Service beyond those that are listed; the oldest go first.
pub const MAX_REMEMBERED: usize = 4096;

/// All listings of all Services.
#[derive(Debug, Clone, Default)]
pub struct Listings {
    slices: HashMap<Name, Slice>,
    services: HashMap<Name, BTreeMap<Socket, BTreeMap<Target, Listing>>>,
    pods: HashMap<Uid, BTreeSet<(Name, Addr)>>,
    pub(super) names: TargetNames,
    ips: HashMap<Addr, BTreeSet<Name>>,
}

/// What a change of listings touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// (Service, IP) pairs.
    pub pairs: BTreeSet<(Name, Addr)>,
    /// Pods that are named behind them, or were until now.
    pub pods: BTreeSet<Uid>,
}

impl Listings {
    /// The sockets of a Service at an IP, with everybody named behind them.
    pub fn at(
        &self,
        service: &Name,
        ip: Addr,
    ) -> impl Iterator<Item = (&Socket, &BTreeMap<Target, Listing>)> {
        let (first, last) = Socket::range_at(ip);
        self.services
            .get(service)
            .into_iter()
            .flat_map(move |sockets| sockets.range(first..=last))
    }

    /// All sockets of a Service.
    pub fn of(&self, service: &Name) -> impl Iterator<Item = (&Socket, &BTreeMap<Target, Listing>)> {
        self.services.get(service).into_iter().flatten()
    }

    /// The IPs of a Service.
    #[must_use]
    pub fn ips(&self, service: &Name) -> BTreeSet<Addr> {
        self.services
            .get(service)
            .into_iter()
            .flat_map(|sockets| sockets.keys().map(|s| s.ip))
            .collect()
    }

    /// Where a pod is, or was, listed.
    pub fn of_pod(&self, uid: Uid) -> impl Iterator<Item = &(Name, Addr)> {
        self.pods.get(&uid).into_iter().flatten()
    }

    /// Services that list an IP, or remember it.
    pub fn services_at(&self, ip: Addr) -> impl Iterator<Item = &Name> {
        self.ips.get(&ip).into_iter().flatten()
    }

    /// Whether any Service lists the pod, or remembers it.
    #[must_use]
    pub fn knows(&self, uid: Uid) -> bool {
        self.pods.contains_key(&uid)
    }

    /// Takes in what the watch says.
    pub fn apply(&mut self, now: Duration, change: Change<Slice>) -> Touched {
        let mut touched = Touched::default();
        match change {
            Change::Applied(slice) => self.replace(now, slice, &mut touched),
            Change::Deleted(slice) => self.unlist(now, &slice.name, &mut touched),
            Change::Reset(slices) => {
                let listed: BTreeSet<Name> = slices.iter().map(|slice| slice.name.clone()).collect();
                let gone: Vec<Name> = self
                    .slices
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                for slice in slices {
                    self.replace(now, slice, &mut touched);
                }
                for name in gone {
                    self.unlist(now, &name, &mut touched);
                }
            }
        }
        touched
    }

    /// A packet was aimed at a denied endpoint: somebody still remembers it, so must we.
    pub fn hit(&mut self, now: Duration, service: &Name, socket: &Socket) {
        let targets = self
            .services
            .get_mut(service)
            .and_then(|sockets| sockets.get_mut(socket));
        for listing in targets.into_iter().flat_map(BTreeMap::values_mut) {
            listing.hit = now;
        }
    }

    /// The Service listed the pod there once, as an earlier process saw.
    pub fn remember(&mut self, now: Duration, service: &Name, socket: Socket, uid: Uid) {
        let sockets = self.services.entry(service.clone()).or_default();
        let listing = sockets.entry(socket).or_default().entry(Some(uid)).or_default();
        listing.last = now;
        self.ips.entry(socket.ip).or_default().insert(service.clone());
        let pairs = self.pods.entry(uid).or_default();
        pairs.insert((service.clone(), socket.ip));
    }

    /// Forgets what nobody has listed or aimed at for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let mut stale: Vec<(Name, Socket, Target)> = Vec::new();
        for (service, sockets) in &self.services {
            for (socket, targets) in sockets {
                for (target, listing) in targets {
                    if !listing.is_current() && now.saturating_sub(listing.used()) > MEMORY {
                        stale.push((service.clone(), *socket, *target));
                    }
                }
            }
        }
        let mut touched = Touched::default();
        self.drop_all(stale, &mut touched);
        touched
    }

    fn replace(&mut self, now: Duration, slice: Slice, touched: &mut Touched) {
        if self.slices.get(&slice.name) == Some(&slice) {
            return;
        }
        let name = slice.name.clone();
        self.list(&slice, touched);
        self.unlist(now, &name, touched);
        self.slices.insert(name, slice);
    }

    fn list(&mut self, slice: &Slice, touched: &mut Touched) {
        let Some(service) = &slice.service else { return };
        let sockets = self.services.entry(service.clone()).or_default();
        for (socket, endpoint, port) in named(slice) {
            let target = endpoint.target;
            let targets = sockets.entry(socket).or_default();
            let listing = targets.entry(target).or_default();
            listing.port.name(port.name);
            listing.slices += 1;
            listing.ready += usize::from(endpoint.ready);
            touched.add(service, socket, target);
            self.ips.entry(socket.ip).or_default().insert(service.clone());
            if let Some(uid) = target {
                self.names.add(uid, endpoint.target_name);
                self.pods
                    .entry(uid)
                    .or_default()
                    .insert((service.clone(), socket.ip));
            }
        }
    }

    fn unlist(&mut self, now: Duration, slice: &Name, touched: &mut Touched) {
        let Some(slice) = self.slices.remove(slice) else {
            return;
        };
        let Some(service) = &slice.service else { return };
        let Some(sockets) = self.services.get_mut(service) else {
            return;
        };
        for (socket, endpoint, _) in named(&slice) {
            let target = endpoint.target;
            if let Some(listing) = sockets
                .get_mut(&socket)
                .and_then(|targets| targets.get_mut(&target))
            {
                listing.slices = listing.slices.saturating_sub(1);
                listing.last = now;
                if endpoint.ready {
                    listing.ready = listing.ready.saturating_sub(1);
                    listing.last_ready = Some(now);
                }
                touched.add(service, socket, target);
            }
        }
        let surplus = self.surplus(service);
        self.drop_all(surplus, touched);
    }

    fn surplus(&self, service: &Name) -> Vec<(Name, Socket, Target)> {
        let Some(sockets) = self.services.get(service) else {
            return Vec::new();
        };
        let mut remembered: Vec<(Duration, Socket, Target)> = sockets
            .iter()
            .flat_map(|(socket, targets)| {
                targets
                    .iter()
                    .map(move |(target, listing)| (socket, target, listing))
            })
            .filter(|(_, _, listing)| !listing.is_current())
            .map(|(socket, target, listing)| (listing.used(), *socket, *target))
            .collect();
        let surplus = remembered.len().saturating_sub(MAX_REMEMBERED);
        remembered.sort_unstable();
        remembered.truncate(surplus);
        remembered
            .into_iter()
            .map(|(_, socket, target)| (service.clone(), socket, target))
            .collect()
    }

    fn drop_all(&mut self, stale: Vec<(Name, Socket, Target)>, touched: &mut Touched) {
        for (service, socket, target) in stale {
            let Some(sockets) = self.services.get_mut(&service) else {
                continue;
            };
            if let Some(targets) = sockets.get_mut(&socket) {
                targets.remove(&target);
                if targets.is_empty() {
                    sockets.remove(&socket);
                }
            }
            if sockets.is_empty() {
                self.services.remove(&service);
            }
            if let Some(uid) = target {
                self.forget_pod(uid, &service, socket.ip);
            }
            self.forget_ip(&service, socket.ip);
            touched.add(&service, socket, target);
        }
    }

    fn forget_ip(&mut self, service: &Name, ip: Addr) {
        if self.at(service, ip).next().is_some() {
            return;
        }
        if let Some(services) = self.ips.get_mut(&ip) {
            services.remove(service);
            if services.is_empty() {
                self.ips.remove(&ip);
            }
        }
    }

    fn forget_pod(&mut self, uid: Uid, service: &Name, ip: Addr) {
        let still_named = self
            .at(service, ip)
            .any(|(_, targets)| targets.contains_key(&Some(uid)));
        if still_named {
            return;
        }
        if let Some(places) = self.pods.get_mut(&uid) {
            places.remove(&(service.clone(), ip));
            if places.is_empty() {
                self.pods.remove(&uid);
                self.names.forget(uid);
            }
        }
    }
}

impl Touched {
    fn add(&mut self, service: &Name, socket: Socket, target: Target) {
        self.pairs.insert((service.clone(), socket.ip));
        self.pods.extend(target);
    }
}

/// Every endpoint of a slice with every port.
fn named(slice: &Slice) -> impl Iterator<Item = (Socket, &Endpoint, &SlicePort)> {
    slice.endpoints.iter().flat_map(|endpoint| {
        slice.ports.iter().map(move |port| {
            let socket = Socket {
                ip: endpoint.ip,
                port: port.port,
                protocol: port.protocol,
            };
            (socket, endpoint, port)
        })
    })
}
