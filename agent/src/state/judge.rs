//! The proof: may a Service's packets to an IP still arrive there?
//!
//! A flow is judged by the pod that was meant, never an IP by API state alone. Whatever is missing here (an unknown
//! UID, an entry without one, a pod that may hold the IP unseen) is a pass.

use super::backends::Backends;
use super::world::World;
use super::{Life, Listing, Record, Socket, Target};
use crate::facts::{Name, Service};
use epguard_common::{Addr, Mode, Reason, Uid, UidState};
use std::collections::BTreeMap;

/// A denial with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// Which proof holds.
    pub reason: Reason,
    /// Dead: all packets. Retired: only those that open a flow.
    pub state: UidState,
    /// Most that may be done, as the annotations of everybody concerned ask.
    pub mode: Mode,
    /// The pod that was meant.
    pub meant: Uid,
    /// The pod that would be hit, for `reused`.
    pub owner: Option<Uid>,
    /// Boot id of the node that the meant pod ran on.
    pub boot_id: Uid,
}

/// Everything that is proven about a Service at an IP.
#[must_use]
pub fn judge(world: &World, name: &Name, service: &Service, ip: Addr) -> Vec<(Socket, Proven)> {
    if !service.has_vip() || !world.is_judged(ip) || world.listings.leaves_out(name) {
        return Vec::new();
    }
    let backends = Backends::new(world, name, service, ip);
    let certain = |record: &&Record| record.pod.ips.contains(&ip) || backends.contains(&record.pod);
    let live = world.pods.claimants(ip).filter(|record| record.is_live());
    let mut certain = live.filter(certain);
    let owner = certain.next();
    if certain.next().is_some() {
        return Vec::new();
    }
    let bound = world.bound_of_service(service);
    let bound = owner.map_or(bound, |owner| bound.lower(world.bound_of_pod(&owner.pod)));
    // A claim in an annotation alone neither ends a denial nor bounds it: whoever holds the IP, this packet is not for it.
    let attached = || world.plausible_claimants(ip).min_by_key(|record| record.pod.uid);
    let owner = owner.or_else(attached);
    if bound == Mode::Off || lists_a_survivor(world, name, ip) {
        return Vec::new();
    }
    let case = Case {
        world,
        service,
        backends,
        ip,
        owner,
        bound,
    };
    world
        .listings
        .at(name, ip)
        .filter_map(|(socket, targets)| Some((*socket, case.prove(targets)?)))
        .collect()
}

/// Whether a slice of the Service lists the IP, on any port, for somebody who is not proven gone.
fn lists_a_survivor(world: &World, service: &Name, ip: Addr) -> bool {
    let mut targets = world.listings.at(service, ip).flat_map(|(_, targets)| targets);
    targets.any(|(target, listing)| listing.is_current() && stale(world, *target).is_none())
}

/// The pod behind a target, if it is proven retired or dead.
fn stale(world: &World, target: Target) -> Option<&Record> {
    let record = world.pods.get(target?)?;
    (world.is_proof(&record.pod) && record.life != Life::Live).then_some(record)
}

struct Case<'a> {
    world: &'a World,
    service: &'a Service,
    backends: Backends<'a>,
    ip: Addr,
    owner: Option<&'a Record>,
    /// As the Service and the owner ask.
    bound: Mode,
}

impl Case<'_> {
    fn prove(&self, targets: &BTreeMap<Target, Listing>) -> Option<Proven> {
        let listed = targets.values().any(Listing::is_current);
        if self.service.selector.is_none() && !listed {
            return None;
        }
        let mut pods = Vec::with_capacity(targets.len());
        for (target, listing) in targets {
            pods.push((stale(self.world, *target)?, listing));
        }
        let (meant, _) = pods
            .iter()
            .max_by_key(|(_, listing)| (listing.is_current(), listing.last))?;
        if pods.iter().any(|(record, _)| self.somebody_may_hold_it(record)) {
            return None;
        }
        let selected = self
            .world
            .pods
            .claimants(self.ip)
            .filter(|record| self.backends.contains(&record.pod));
        let state = match pods
            .iter()
            .map(|(record, _)| record.life)
            .chain(selected.map(|record| record.life))
            .min()?
        {
            Life::Dead => UidState::Dead,
            Life::Retired => UidState::Retired,
            Life::Live => return None,
        };
        let reason = self.reason(state, meant)?;
        let bounds = pods
            .iter()
            .map(|(record, _)| self.world.bound_of_pod(&record.pod));
        Some(Proven {
            reason,
            state,
            mode: bounds.fold(self.bound, Mode::lower),
            meant: meant.pod.uid,
            owner: self.owner.map(|owner| owner.pod.uid),
            boot_id: self.world.boot_id(meant.pod.node.as_deref()),
        })
    }

    fn reason(&self, state: UidState, meant: &Record) -> Option<Reason> {
        match (self.owner, state) {
            (None, UidState::Dead) => Some(Reason::DeadBackend),
            (None, UidState::Retired) => Some(Reason::RetiredBackend),
            (Some(_), UidState::Dead) => Some(Reason::Reused),
            (Some(owner), UidState::Retired) => self.claimed_after(owner, meant).then_some(Reason::Reused),
            (_, UidState::Live) => None,
        }
    }

    /// A retired pod may still run and own the IP; only a claim that was seen to come later says otherwise. For a
    /// dead one the order is no matter: whatever it claimed is void. Claims on other networks than the pods' say nothing
    /// about who came later: such networks may overlap.
    fn claimed_after(&self, owner: &Record, meant: &Record) -> bool {
        match (owner.claims.get(&self.ip), meant.claims.get(&self.ip)) {
            (Some(later), Some(earlier)) => {
                later.published && earlier.published && later.order > earlier.order
            }
            _ => false,
        }
    }

    /// True if a pod of the Service may hold the IP without showing it.
    fn somebody_may_hold_it(&self, stale: &Record) -> bool {
        let node = stale.pod.node.as_deref();
        let anywhere = !self.world.is_exclusive(self.ip, node);
        self.world
            .pods
            .candidates()
            .any(|pod| (anywhere || pod.pod.node.as_deref() == node) && self.backends.contains(&pod.pod))
    }
}
