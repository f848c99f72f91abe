//! Confirmation of mass denials. A denial that rests on one list alone, or that goes beyond half of a Service's
//! endpoints, is pending: reported, never carried out, until a second consistent list agrees.
//!
//! ```text
//! denials -> new ones: carried out, or pending -> a later list: agrees (carried out), or disagrees (dropped)
//! ```

use super::opinions::{self, Came, Wanted};
use super::pending::{Known, Pending, Why, is_plain, rests_on_one_list};
use super::{ClusterIndex, Denials, Endpoint, Proven};
use crate::facts::{Name, Watched};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// All denials, carried out or pending.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    known: BTreeMap<Name, BTreeMap<Endpoint, Known>>,
    /// Denials that an earlier process carried out: a list that shows them again is no new proof.
    restored: BTreeSet<(Addr, Uid)>,
}

/// A Service with pending denials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trip {
    /// Endpoints (IPs) with a pending denial.
    pub held: usize,
    /// All endpoints (IPs) with a denial.
    pub denied: usize,
    /// Endpoints (IPs) that were ready at any time in the last 5 minutes.
    pub ready_recently: usize,
    /// Since when at least one denial has been pending.
    pub since: Duration,
    /// Why denials are pending; the half, if for both reasons.
    pub why: Why,
}

impl Trip {
    /// True if it is about more than half of the Service, at least two endpoints: worth an alarm. Smaller numbers are
    /// normal at every restart and every gap.
    #[must_use]
    pub fn is_a_mass(&self) -> bool {
        self.why == Why::Half || self.denied > allowance(self.ready_recently)
    }
}

impl Breaker {
    /// Stores the IPs where an earlier process carried denials out: these are not new.
    pub fn restore(&mut self, denied: impl IntoIterator<Item = (Addr, Uid)>) {
        self.restored.extend(denied);
    }

    /// Ends the restore after the first lists: later denials are new.
    pub fn drop_restored(&mut self) {
        self.restored.clear();
    }

    /// Updates the denials of a Service. `list` is the list that has just come, if any. True if a denial became pending, or
    /// is pending no more.
    pub fn settle(
        &mut self,
        cluster: &ClusterIndex,
        now: Duration,
        denials: &Denials,
        service: &Name,
        list: Option<&Came>,
    ) -> bool {
        let proven: BTreeMap<&Endpoint, &Proven> = of(denials, service).collect();
        let mut known = self.known.remove(service).unwrap_or_default();
        if proven.is_empty() && known.is_empty() {
            return false;
        }
        let before = held(&known);
        known.retain(|endpoint, known| {
            let needs = |known: &Known| opinions::needs(cluster, service, endpoint.ip, known.meant);
            known.update(list, proven.get(endpoint).copied(), needs)
        });
        for (endpoint, known) in &mut known {
            let plain = |proven: &&Proven| is_plain(cluster, service, endpoint, proven);
            let settled = proven.get(endpoint).is_some_and(plain);
            known
                .pending
                .take_if(|pending| pending.why == Why::Half && settled);
        }
        let new = proven.into_iter().filter(|(endpoint, proven)| {
            known
                .get(endpoint)
                .is_none_or(|known| known.is_outgrown_by(proven))
        });
        let new: Vec<(&Endpoint, &Proven)> = new.collect();
        if !new.is_empty() {
            let mut room = Room::new(cluster, now, service, &known, denials);
            for (endpoint, proven) in new {
                let distrusted = if self.is_new_by_one_list(cluster, list, endpoint.ip, proven) {
                    Some(Why::OneList)
                } else {
                    let fits = is_plain(cluster, service, endpoint, proven) || room.take(endpoint.ip);
                    (!fits).then_some(Why::Half)
                };
                let list = list.map(|list| list.kind);
                let pending =
                    distrusted.map(|why| Pending::new(cluster, now, why, list, (service, endpoint)));
                known.insert(*endpoint, Known::new(proven, pending));
            }
        }
        let changed = before != held(&known);
        if !known.is_empty() {
            self.known.insert(service.clone(), known);
        }
        changed
    }

    /// Services with denials that a list may concern.
    pub fn waiting(&self, cluster: &ClusterIndex, list: &Came) -> impl Iterator<Item = &Name> {
        let concerned = self.known.iter().filter(move |(service, known)| {
            let mut known = known.iter();
            list.is_whole()
                || known.any(|(endpoint, known)| {
                    let needs = opinions::needs(cluster, service, endpoint.ip, known.meant);
                    needs.iter().any(|needed| list.answers(needed))
                })
        });
        concerned.map(|(service, _)| service)
    }

    /// True if a denial is only reported.
    #[must_use]
    pub fn is_pending(&self, service: &Name, endpoint: &Endpoint) -> bool {
        let known = self.known.get(service).and_then(|known| known.get(endpoint));
        known.is_some_and(|known| known.proven && known.pending.is_some())
    }

    /// The lists that pending denials wait for.
    #[must_use]
    pub fn wanted_lists(&self) -> BTreeSet<Watched> {
        let all = self.known.values().flat_map(BTreeMap::values);
        let holds = all
            .filter(|known| known.proven)
            .filter_map(|known| known.pending.as_ref());
        holds.flat_map(|pending| pending.waits.iter().copied()).collect()
    }

    /// The narrow lists that pending denials wait for, each with the namespace of a Service that it is for.
    #[must_use]
    pub fn wanted_opinions(&self, cluster: &ClusterIndex) -> Wanted {
        let mut wanted = Wanted::new();
        for (service, known) in &self.known {
            for (endpoint, known) in known.iter().filter(|(_, known)| known.proven) {
                if let Some(pending) = &known.pending {
                    let needs = opinions::needs(cluster, service, endpoint.ip, known.meant);
                    let left = needs.into_iter().filter(|needed| pending.waits_for(needed));
                    wanted.extend(left.map(|needed| (needed, Some(service.0.clone()))));
                }
            }
        }
        wanted
    }

    /// Services with pending denials.
    #[must_use]
    pub fn trips(&self, cluster: &ClusterIndex, now: Duration) -> BTreeMap<&Name, Trip> {
        let tripped = self.known.iter().filter_map(|(service, known)| {
            let proven = || known.iter().filter(|(_, known)| known.proven);
            let holds: Vec<(Addr, &Pending)> = proven()
                .filter_map(|(endpoint, known)| Some((endpoint.ip, known.pending.as_ref()?)))
                .collect();
            let trip = Trip {
                held: distinct(holds.iter().map(|(ip, _)| *ip)),
                denied: distinct(proven().map(|(endpoint, _)| endpoint.ip)),
                ready_recently: cluster.endpoint_index.recently_ready(now, service).len(),
                since: holds.iter().map(|(_, pending)| pending.since).min()?,
                why: holds.iter().map(|(_, pending)| pending.why).max()?,
            };
            Some((service, trip))
        });
        tripped.collect()
    }

    /// Confirms the pending denials of a Service, or of all. Returns the number of denials that are carried out from
    /// now on.
    pub fn release(&mut self, service: Option<&Name>) -> usize {
        let chosen = self
            .known
            .iter_mut()
            .filter(|(name, _)| service.is_none_or(|service| service == *name));
        let known = chosen.flat_map(|(_, known)| known.values_mut());
        known.filter_map(|known| known.pending.take()).count()
    }

    fn is_new_by_one_list(
        &self,
        cluster: &ClusterIndex,
        list: Option<&Came>,
        ip: Addr,
        proven: &Proven,
    ) -> bool {
        let restored = self.restored.contains(&(ip, proven.meant));
        !restored && (list.is_some() || rests_on_one_list(cluster, proven))
    }
}

/// How many more endpoints of a Service may be denied without a second list.
struct Room {
    ready: BTreeSet<Addr>,
    denied: BTreeSet<Addr>,
}

impl Room {
    fn new(
        cluster: &ClusterIndex,
        now: Duration,
        service: &Name,
        known: &BTreeMap<Endpoint, Known>,
        denials: &Denials,
    ) -> Self {
        let ready = cluster.endpoint_index.recently_ready(now, service);
        let carried_out = of(denials, service).filter(|(endpoint, proven)| {
            let trusted = known.get(endpoint).is_some_and(|known| known.pending.is_none());
            trusted && !is_plain(cluster, service, endpoint, proven)
        });
        let ips = carried_out.map(|(endpoint, _)| endpoint.ip);
        let denied = ips.filter(|ip| ready.contains(ip)).collect();
        Self { ready, denied }
    }

    /// True if an endpoint may be denied, which then takes a place. An endpoint that was not ready recently takes none.
    fn take(&mut self, ip: Addr) -> bool {
        if !self.ready.contains(&ip) || self.denied.contains(&ip) {
            return true;
        }
        let fits = self.denied.len() < allowance(self.ready.len());
        if fits {
            self.denied.insert(ip);
        }
        fits
    }
}

/// Half of the endpoints, at least one.
fn allowance(ready: usize) -> usize {
    (ready / 2).max(1)
}

fn of<'a>(denials: &'a Denials, service: &Name) -> impl Iterator<Item = (&'a Endpoint, &'a Proven)> {
    let (first, last) = Endpoint::range();
    let denials = denials.range((service.clone(), first)..=(service.clone(), last));
    denials.map(|((_, endpoint), proven)| (endpoint, proven))
}

fn held(known: &BTreeMap<Endpoint, Known>) -> Vec<Endpoint> {
    let held = known
        .iter()
        .filter(|(_, known)| known.proven && known.pending.is_some());
    held.map(|(endpoint, _)| *endpoint).collect()
}

fn distinct(ips: impl Iterator<Item = Addr>) -> usize {
    ips.collect::<BTreeSet<_>>().len()
}
