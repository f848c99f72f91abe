//! All denials. One that rests on one list alone, or that goes beyond half of a Service's
//! endpoints, is pending: reported, never carried out, until a second consistent list agrees.
//!
//! ```text
//! proof -> new ones: carried out, or pending -> a later list: agrees (carried out), or disagrees (dropped)
//! ```

mod needs;
pub mod opinions;
pub mod pending;
mod room;

pub(crate) use opinions::Opinions;
pub use opinions::{Opinion, spread};
pub use pending::Why;

use crate::counts::{Counts, uncount};
use crate::facts::ObjectName;
use crate::sorted_map::SortedMap;
use crate::state::State;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use crate::state::proof::is_held;
use epguard_common::{Addr, Denial, Uid};
use needs::Needs;
use opinions::{ReceivedList, Wanted};
use pending::{Denied, Listed, Pending, rests_on_one_list};
use room::{Room, allowance};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;
use std::time::Duration;

/// How many pending denials of a namespace have their lists requested at a time.
const TURN: usize = 64;

/// All denials, carried out or pending.
#[derive(Debug, Clone, Default)]
pub struct Denials {
    of_services: BTreeMap<ObjectName, OfService>,
    /// Denials that an earlier process carried out: until the first lists are judged, a list that
    /// shows them again is no new proof.
    pub restored: BTreeSet<(Addr, Uid)>,
}

/// The denials of one Service.
#[derive(Debug, Clone, Default)]
struct OfService {
    denied: SortedMap<Endpoint, Denied>,
    /// How many denials at each IP take the room of the Service.
    taken: Counts<Addr>,
    /// IPs with denials that pods of the Service may end which start.
    unheld: BTreeSet<Addr>,
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
    /// True if it is about more than half of the Service, at least two endpoints: worth an alarm.
    /// Smaller numbers are normal at every restart and every gap.
    pub fn is_a_mass(&self) -> bool {
        self.why == Why::Half || self.denied > allowance(self.ready_recently)
    }
}

impl Denials {
    /// Everything is listed anew: what is proven from now on is new. Until then each denial stays
    /// as the tables have it.
    pub fn start_over(&mut self) {
        self.restored.clear();
        for known in self.of_services.values_mut() {
            known.taken.clear();
            known
                .denied
                .values_mut()
                .for_each(|denied| (denied.is_void, denied.takes_room) = (true, false));
        }
    }

    /// Forgets all proofs, but not what is pending.
    pub fn forget_proofs(&mut self) {
        let all = self
            .of_services
            .values_mut()
            .flat_map(|of_service| of_service.denied.values_mut());
        all.for_each(|denied| denied.holds = false);
    }

    /// Updates the denials of a Service at some IPs to what is proven there now. `lists` have come
    /// since it was judged last. Returns the IPs where a denial changed.
    pub fn update_service(
        &mut self,
        cluster: &ClusterIndex,
        now: Duration,
        service: &ObjectName,
        ips: &[Addr],
        proven: &BTreeMap<Endpoint, Denial>,
        lists: &[ReceivedList],
    ) -> BTreeSet<Addr> {
        let mut known = self.of_services.remove(service).unwrap_or_default();
        let before: Vec<_> = ips.iter().map(|ip| known.shown(*ip)).collect();
        let needs = Needs::new(cluster, service);
        let mut listed = Listed::new(cluster, service);
        for ip in ips {
            let endpoints: Vec<Endpoint> =
                known.all_at(*ip).map(|(endpoint, _)| *endpoint).collect();
            for endpoint in endpoints {
                let proof = proven.get(&endpoint);
                let plain = proof.is_some_and(|proof| listed.is_plain(*ip, proof.dead_uid));
                let is_released = |pending: &mut Box<Pending>| pending.why == Why::Half && plain;
                let carried_out = known.denied.get_mut(&endpoint).and_then(|denied| {
                    let stays = denied.update(lists, proof, (&needs, *ip));
                    denied.pending.take_if(is_released);
                    stays.then_some(denied.pending.is_none())
                });
                known.set_room(&endpoint, carried_out == Some(true) && !plain);
                if carried_out.is_none() {
                    known.denied.remove(&endpoint);
                }
            }
        }
        let mut room = Room::new(cluster, now, service);
        for (endpoint, proven) in proven {
            if known
                .denied
                .get(endpoint)
                .is_some_and(|denied| !denied.is_outgrown_by(proven))
            {
                continue;
            }
            let plain = listed.is_plain(endpoint.ip, proven.dead_uid);
            let restored = self.restored.contains(&(endpoint.ip, proven.dead_uid));
            let doubted = if !restored && (!lists.is_empty() || rests_on_one_list(cluster, proven))
            {
                Some(Why::OneList)
            } else {
                let fits = plain || room.fits(endpoint.ip, &known);
                (!fits).then_some(Why::Half)
            };
            let pending = doubted.map(|why| Pending::new(now, why, lists, listed.has(endpoint.ip)));
            let takes_room = pending.is_none() && !plain;
            known.set_room(endpoint, false);
            known.denied.insert(*endpoint, Denied::new(proven, pending));
            known.set_room(endpoint, takes_room);
        }
        for ip in ips {
            let is_unheld = known
                .at(*ip)
                .any(|(_, denied)| !is_held(cluster, service, *ip, &denied.proven));
            if is_unheld {
                known.unheld.insert(*ip);
            } else {
                known.unheld.remove(ip);
            }
        }
        let changed = ips
            .iter()
            .zip(before)
            .filter(|(ip, before)| known.shown(**ip) != *before);
        let changed = changed.map(|(ip, _)| *ip).collect();
        if !known.denied.is_empty() {
            self.of_services.insert(service.clone(), known);
        }
        changed
    }

    /// All that are proven.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectName, &Endpoint, &Denied)> {
        let all = self.of_services.iter();
        all.flat_map(|(name, known)| {
            known
                .proven()
                .map(move |(endpoint, denied)| (name, endpoint, denied))
        })
    }

    /// Those of a Service that are proven.
    pub fn of_service(&self, service: &ObjectName) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        self.of_services
            .get(service)
            .into_iter()
            .flat_map(OfService::proven)
    }

    /// Those of a Service at an IP that are proven.
    pub fn at(&self, service: &ObjectName, ip: Addr) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        self.of_services
            .get(service)
            .into_iter()
            .flat_map(move |known| known.at(ip))
    }

    /// The one of a Service at an endpoint, if it is proven.
    pub fn get(&self, service: &ObjectName, endpoint: &Endpoint) -> Option<&Denied> {
        self.of_services
            .get(service)?
            .denied
            .get(endpoint)
            .filter(|denied| denied.holds)
    }

    /// Services with denials, proven or pending.
    pub fn services(&self) -> impl Iterator<Item = &ObjectName> {
        self.of_services.keys()
    }

    /// Services with pending denials that may wait for the list, or whose pods it shows alive. It
    /// has been applied.
    pub fn waiting(
        &self,
        cluster: &ClusterIndex,
        list: &ReceivedList,
    ) -> impl Iterator<Item = &ObjectName> {
        let concerned = self.of_services.iter().filter(move |(service, known)| {
            let needs = Needs::new(cluster, service);
            let waits = |pending: &Pending| pending.waits.contains(&Some(list.kind));
            let waiting = known
                .denied
                .iter()
                .filter(|(_, denied)| denied.pending.as_deref().is_some_and(waits));
            let mut previous = None;
            let meant = waiting.map(|(endpoint, denied)| (endpoint.ip, denied.proven.dead_uid));
            // Many endpoints may be at one IP.
            let mut meant = meant.filter(|meant| previous.replace(*meant) != Some(*meant));
            meant.any(|(ip, uid)| needs.may_include(ip, list) || needs.shows_alive(list, uid))
        });
        concerned.map(|(service, _)| service)
    }

    /// The IPs of a Service with denials, proven or pending, ascending.
    pub fn ips(&self, service: &ObjectName) -> impl Iterator<Item = Addr> {
        let known = self
            .of_services
            .get(service)
            .into_iter()
            .flat_map(|known| known.denied.keys());
        known.map(|endpoint| endpoint.ip)
    }

    /// Those of them with denials that pods of the Service may end which start: all but those that
    /// a stranger shows.
    pub fn unheld(&self, service: &ObjectName) -> impl Iterator<Item = Addr> {
        self.of_services
            .get(service)
            .into_iter()
            .flat_map(|known| &known.unheld)
            .copied()
    }

    /// The lists that pending denials wait for, narrow where possible, each with the namespace of a
    /// Service that it is for. Those of a namespace's first `TURN` pending denials, since it may
    /// request but a few lists.
    pub fn wanted_opinions(&self, cluster: &ClusterIndex) -> Wanted {
        let mut wanted = Wanted::new();
        let (mut namespace, mut room) = (None, 0);
        for (service, known) in &self.of_services {
            if namespace.replace(&service.namespace) != Some(&service.namespace) {
                room = TURN;
            }
            let needs = Needs::new(cluster, service);
            for (ip, pending) in known.pending().take(room) {
                let all = needs.at(ip, pending.waits).into_iter();
                for needed in all.filter(|needed| !pending.agreed.contains(needed)) {
                    wanted
                        .entry(needed)
                        .or_default()
                        .insert(service.namespace.clone());
                }
                room -= 1;
            }
        }
        wanted
    }

    /// Confirms the pending denials of a Service, or of all. Returns those that are carried out
    /// from now on.
    pub fn release(
        &mut self,
        cluster: &ClusterIndex,
        service: Option<&ObjectName>,
    ) -> BTreeMap<ObjectName, Vec<Endpoint>> {
        let mut released: BTreeMap<ObjectName, Vec<Endpoint>> = BTreeMap::new();
        let is_chosen = |name: &ObjectName| service.is_none_or(|service| service == name);
        for (name, known) in self
            .of_services
            .iter_mut()
            .filter(|(name, _)| is_chosen(name))
        {
            let pending = known
                .proven()
                .filter(|(_, denied)| denied.pending.is_some());
            let pending = pending.map(|(endpoint, denied)| (*endpoint, denied.proven.dead_uid));
            let mut listed = Listed::new(cluster, name);
            for (endpoint, meant) in pending.collect::<Vec<_>>() {
                released.entry(name.clone()).or_default().push(endpoint);
                known.set_room(&endpoint, !listed.is_plain(endpoint.ip, meant));
                if let Some(denied) = known.denied.get_mut(&endpoint) {
                    denied.pending = None;
                }
            }
        }
        released
    }
}

impl State {
    /// Services with pending denials.
    pub fn trips(&self, now: Duration) -> BTreeMap<&ObjectName, Trip> {
        let tripped = self
            .denials
            .of_services
            .iter()
            .filter_map(|(service, known)| {
                let holds: Vec<(Addr, &Pending)> = known.pending().collect();
                let since = holds.iter().map(|(_, pending)| pending.since).min()?.into();
                let trip = Trip {
                    held: distinct(holds.iter().map(|(ip, _)| *ip)),
                    denied: distinct(known.proven().map(|(endpoint, _)| endpoint.ip)),
                    ready_recently: self
                        .cluster
                        .endpoint_index
                        .ready_after(now, service, None)
                        .count(),
                    since,
                    why: holds.iter().map(|(_, pending)| pending.why).max()?,
                };
                Some((service, trip))
            });
        tripped.collect()
    }
}

impl OfService {
    fn proven(&self) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        self.denied.iter().filter(|(_, denied)| denied.holds)
    }

    fn at(&self, ip: Addr) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        self.all_at(ip).filter(|(_, denied)| denied.holds)
    }

    /// Those at an IP, with those that are not proven now.
    fn all_at(&self, ip: Addr) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        let further = self.denied.from(Endpoint::range_at(ip).0);
        further.take_while(move |(endpoint, _)| endpoint.ip == ip)
    }

    /// Those that are proven and pending, with their IPs.
    fn pending(&self) -> impl Iterator<Item = (Addr, &Pending)> {
        let valid = self.proven().filter(|(_, denied)| !denied.is_void);
        valid.filter_map(|(endpoint, denied)| Some((endpoint.ip, denied.pending.as_deref()?)))
    }

    /// Notes whether a denial takes room.
    fn set_room(&mut self, endpoint: &Endpoint, takes_room: bool) {
        let Some(denied) = self.denied.get_mut(endpoint) else {
            return;
        };
        match (replace(&mut denied.takes_room, takes_room), takes_room) {
            (false, true) => *self.taken.entry(endpoint.ip).or_default() += 1,
            (true, false) => drop(uncount(&mut self.taken, &endpoint.ip, 1)),
            _ => {}
        }
    }

    /// What the tables show of the denials at an IP.
    fn shown(&self, ip: Addr) -> Vec<(Endpoint, Denial, bool)> {
        let shown = self.at(ip);
        shown
            .map(|(endpoint, denied)| (*endpoint, denied.proven, denied.pending.is_some()))
            .collect()
    }
}

/// How many IPs there are, of ascending ones.
fn distinct(ips: impl Iterator<Item = Addr>) -> usize {
    let mut last = None;
    ips.filter(|ip| last.replace(*ip) != Some(*ip)).count()
}
