//! Confirmation of mass denials. A denial that rests on one list alone, or that goes beyond half of a Service's
//! endpoints, is pending: reported, never carried out, until a second consistent list agrees.
//!
//! ```text
//! denials -> new ones: carried out, or pending -> a later list: agrees (carried out), or disagrees (dropped)
//! ```

use super::needs::Needs;
use super::opinions::{ReceivedList, Wanted};
use super::pending::{Known, Pending, Why, is_plain, rests_on_one_list};
use super::room::{Room, allowance};
use super::taken::Taken;
use crate::facts::{Name, Watched};
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use crate::state::proof::{Denials, Proven};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many pending denials of a namespace have their lists requested at a time.
const TURN: usize = 64;

/// All denials, carried out or pending.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    known: BTreeMap<Name, BTreeMap<Endpoint, Known>>,
    /// Endpoints whose denial is carried out though it is not plain: they take the room of their Service.
    not_plain: BTreeMap<Name, Taken>,
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

    /// Updates the denials of a Service at some IPs. `list` is the list that has just come, if any. Returns the IPs where a denial became pending, or is pending no more.
    pub fn update_service(
        &mut self,
        cluster: &ClusterIndex,
        now: Duration,
        denials: &Denials,
        (service, ips): (&Name, &[Addr]),
        list: Option<&ReceivedList>,
    ) -> Vec<Addr> {
        let mut known = self.known.remove(service).unwrap_or_default();
        let mut not_plain = self.not_plain.remove(service).unwrap_or_default();
        let before: Vec<_> = ips.iter().map(|ip| held(&known, *ip)).collect();
        let needs = Needs::new(cluster, service);
        for ip in ips {
            let proven: BTreeMap<&Endpoint, &Proven> = at(denials, service, *ip).collect();
            for endpoint in endpoints(&known, *ip) {
                let proof = proven.get(&endpoint).copied();
                let plain = proof.is_some_and(|proof| is_plain(cluster, service, &endpoint, proof.meant));
                let is_released = |pending: &mut Pending| pending.why == Why::Half && plain;
                let carried_out = known.get_mut(&endpoint).and_then(|known| {
                    let stays = known.update(list, proof, (&needs, *ip));
                    known.pending.take_if(is_released);
                    stays.then_some(known.pending.is_none())
                });
                if carried_out.is_none() {
                    known.remove(&endpoint);
                }
                not_plain.set(endpoint, carried_out == Some(true) && !plain);
            }
        }
        let mut room = Room::new(cluster, now, service);
        for (endpoint, proven) in ips.iter().flat_map(|ip| at(denials, service, *ip)) {
            let known_before = known.get(endpoint);
            if known_before.is_some_and(|known| !known.is_outgrown_by(proven)) {
                continue;
            }
            let plain = is_plain(cluster, service, endpoint, proven.meant);
            let doubted = if self.is_new_by_one_list(cluster, list, endpoint.ip, proven) {
                Some(Why::OneList)
            } else {
                let fits = plain || room.fits(endpoint.ip, &not_plain);
                (!fits).then_some(Why::Half)
            };
            let kind = list.map(|list| list.kind);
            let pending = doubted.map(|why| Pending::new(cluster, now, why, kind, (service, endpoint)));
            not_plain.set(*endpoint, pending.is_none() && !plain);
            known.insert(*endpoint, Known::new(proven, pending));
        }
        let changed = ips.iter().zip(before).filter(|(ip, before)| held(&known, **ip) != *before);
        let changed = changed.map(|(ip, _)| *ip).collect();
        if !not_plain.is_empty() {
            self.not_plain.insert(service.clone(), not_plain);
        }
        if !known.is_empty() {
            self.known.insert(service.clone(), known);
        }
        changed
    }

    /// Services with denials.
    pub fn services(&self) -> impl Iterator<Item = &Name> {
        self.known.keys()
    }

    /// Services with pending denials that may wait for the list.
    pub fn waiting(&self, cluster: &ClusterIndex, list: &ReceivedList) -> impl Iterator<Item = &Name> {
        let concerned = self.known.iter().filter(move |(service, known)| {
            let needs = Needs::new(cluster, service);
            let pending =
                known.iter().filter_map(|(endpoint, known)| Some((endpoint.ip, known.pending.as_ref()?)));
            let waiting = pending.filter(|(_, pending)| pending.waits.contains(&list.kind));
            let ips: BTreeSet<Addr> = waiting.map(|(ip, _)| ip).collect();
            ips.into_iter().any(|ip| needs.may_include(ip, list))
        });
        concerned.map(|(service, _)| service)
    }

    /// The IPs of a Service with denials.
    pub fn ips(&self, service: &Name) -> impl Iterator<Item = Addr> {
        let known = self.known.get(service).into_iter().flatten();
        known.map(|(endpoint, _)| endpoint.ip)
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
        let holds = all.filter(|known| known.proven).filter_map(|known| known.pending.as_ref());
        holds.flat_map(Pending::kinds_left).collect()
    }

    /// The lists that pending denials wait for, narrow where possible, each with the namespace of a Service that it is for.
    /// Those of a namespace's first `TURN` pending denials, since it may request but a few lists.
    #[must_use]
    pub fn wanted_opinions(&self, cluster: &ClusterIndex) -> Wanted {
        let mut wanted = Wanted::new();
        let (mut namespace, mut room) = (None, 0);
        for (service, known) in &self.known {
            if namespace.replace(&service.0) != Some(&service.0) {
                room = TURN;
            }
            let needs = Needs::new(cluster, service);
            let pending = known.iter().filter(|(_, known)| known.proven);
            let pending =
                pending.filter_map(|(endpoint, known)| Some((endpoint.ip, known.pending.as_ref()?)));
            for (ip, pending) in pending.take(room) {
                let left = pending.left(needs.at(ip, &pending.waits));
                for needed in left {
                    wanted.entry(needed).or_default().insert(service.0.clone());
                }
                room -= 1;
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
            let since = holds.iter().map(|(_, pending)| pending.since).min()?;
            let trip = Trip {
                held: distinct(holds.iter().map(|(ip, _)| *ip)),
                denied: distinct(proven().map(|(endpoint, _)| endpoint.ip)),
                ready_recently: cluster.endpoint_index.recently_ready(now, service).len(),
                since,
                why: holds.iter().map(|(_, pending)| pending.why).max()?,
            };
            Some((service, trip))
        });
        tripped.collect()
    }

    /// Confirms the pending denials of a Service, or of all. Returns the number of denials that are carried out from
    /// now on.
    pub fn release(&mut self, cluster: &ClusterIndex, service: Option<&Name>) -> usize {
        let mut released = 0;
        let is_chosen = |name: &Name| service.is_none_or(|service| service == name);
        for (name, known) in self.known.iter_mut().filter(|(name, _)| is_chosen(name)) {
            for (endpoint, known) in known {
                let carried_out = known.pending.take().is_some();
                released += usize::from(carried_out);
                if carried_out && !is_plain(cluster, name, endpoint, known.meant) {
                    self.not_plain.entry(name.clone()).or_default().set(*endpoint, true);
                }
            }
        }
        released
    }

    fn is_new_by_one_list(
        &self,
        cluster: &ClusterIndex,
        list: Option<&ReceivedList>,
        ip: Addr,
        proven: &Proven,
    ) -> bool {
        let restored = self.restored.contains(&(ip, proven.meant));
        !restored && (list.is_some() || rests_on_one_list(cluster, proven))
    }
}

/// The denials of a Service at an IP.
fn at<'a>(
    denials: &'a Denials,
    service: &Name,
    ip: Addr,
) -> impl Iterator<Item = (&'a Endpoint, &'a Proven)> {
    let (first, last) = Endpoint::range_at(ip);
    let denials = denials.range((service.clone(), first)..=(service.clone(), last));
    denials.map(|((_, endpoint), proven)| (endpoint, proven))
}

fn endpoints(known: &BTreeMap<Endpoint, Known>, ip: Addr) -> Vec<Endpoint> {
    let (first, last) = Endpoint::range_at(ip);
    known.range(first..=last).map(|(endpoint, _)| *endpoint).collect()
}

fn held(known: &BTreeMap<Endpoint, Known>, ip: Addr) -> Vec<Endpoint> {
    let (first, last) = Endpoint::range_at(ip);
    let held = known.range(first..=last);
    let held = held.filter(|(_, known)| known.proven && known.pending.is_some());
    held.map(|(endpoint, _)| *endpoint).collect()
}

fn distinct(ips: impl Iterator<Item = Addr>) -> usize {
    ips.collect::<BTreeSet<_>>().len()
}
