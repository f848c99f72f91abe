//! Where flows that open towards a denied endpoint may go instead: live endpoints of the same Service and port.

use super::{Denials, Listing, Port, Record, Socket, Target, World};
use crate::facts::{Name, Service};
use epguard_common::{Action, Backend, Backends, MAX_BACKENDS};
use std::collections::BTreeMap;

/// How near an endpoint is; the nearest are taken, and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    SameNode,
    SameZone,
    Elsewhere,
}

/// The live endpoints for flows to `denied`; none if the Service does not ask for it, or has none. Only pods that are
/// known to live, alone at their IP, are taken; the nearest ones, and each node begins with another one.
#[must_use]
pub fn of(world: &World, denials: &Denials, name: &Name, denied: &Socket) -> Backends {
    let steering = match world.service(name) {
        Some(Service { steering, .. }) if steering.action == Action::Redirect => *steering,
        _ => return Backends::default(),
    };
    let Some(port) = port(world, name, denied) else {
        return Backends::default();
    };
    let mut live: Vec<(Distance, Backend)> = world
        .listings
        .of(name)
        .filter(|(socket, targets)| is_alike(socket, denied) && is_ready(targets, port))
        .filter(|(socket, _)| !denials.contains_key(&(name.clone(), **socket)))
        .filter_map(|(socket, targets)| offer(world, socket, targets))
        .filter(|(distance, _)| !steering.local_only || *distance == Distance::SameNode)
        .collect();
    live.sort_unstable();
    let nearest = live.first().map(|(distance, _)| *distance);
    live.retain(|(distance, _)| Some(*distance) == nearest);
    if live.len() > MAX_BACKENDS {
        let first = world.settings.node.bytes().map(usize::from).sum::<usize>() % live.len();
        live.rotate_left(first);
    }
    Backends::new(steering.sticky, live.into_iter().map(|(_, backend)| backend))
}

/// Which port of the Service the denied socket stood for, if nothing else was ever said.
fn port(world: &World, name: &Name, denied: &Socket) -> Option<Port> {
    let (_, targets) = world
        .listings
        .at(name, denied.ip)
        .find(|(socket, _)| *socket == denied)?;
    let mut ports = targets.values().map(|listing| listing.port);
    let port = ports.next()?;
    (matches!(port, Port::Named(_)) && ports.all(|other| other == port)).then_some(port)
}

fn is_alike(socket: &Socket, denied: &Socket) -> bool {
    socket.protocol == denied.protocol && socket.ip.is_v4() == denied.ip.is_v4() && socket.ip != denied.ip
}

fn is_ready(targets: &BTreeMap<Target, Listing>, port: Port) -> bool {
    targets.values().any(|listing| listing.ready > 0)
        && targets
            .values()
            .all(|listing| !listing.is_current() || listing.port == port)
}

/// The one pod that is listed at the socket, if it lives, stays, and alone shows the IP.
fn holder<'a>(world: &'a World, socket: &Socket, targets: &BTreeMap<Target, Listing>) -> Option<&'a Record> {
    let mut current = targets.iter().filter(|(_, listing)| listing.is_current());
    let (target, _) = current.next()?;
    let record = world.pods.get((*target)?)?;
    let mut claimants = world.plausible_claimants(socket.ip);
    let alone = claimants
        .next()
        .is_some_and(|claimant| claimant.pod.uid == record.pod.uid);
    let is_it = current.next().is_none() && alone && claimants.next().is_none();
    (is_it && !record.pod.deleting && !world.is_infrastructure(socket.ip)).then_some(record)
}

fn offer(world: &World, socket: &Socket, targets: &BTreeMap<Target, Listing>) -> Option<(Distance, Backend)> {
    let record = holder(world, socket, targets)?;
    let backend = Backend {
        addr: socket.ip,
        uid: record.pod.uid,
        port: socket.port,
        reserved: 0,
    };
    Some((distance(world, record), backend))
}

fn distance(world: &World, record: &Record) -> Distance {
    let zone = |node: &str| world.node(node).and_then(|node| node.zone.as_deref());
    match record.pod.node.as_deref() {
        Some(node) if node == world.settings.node => Distance::SameNode,
        Some(node) if zone(node).is_some() && zone(node) == zone(&world.settings.node) => Distance::SameZone,
        _ => Distance::Elsewhere,
    }
}
