//! The Services that wait, judged: denials, whether the breaker stops them, and their entries in
//! the tables.

use crate::facts::{ObjectName, Selection, Service, Text, Watched};
use crate::state::breaker::{ReceivedList, SecondList, Wanted, request_spread};
use crate::state::dirty::Dirty;
use crate::state::index::endpoints::Endpoint;
use crate::state::not_proven::NotProven;
use crate::state::orphan_ip::OrphanIp;
use crate::state::proof::{Own, judge};
use crate::state::queue::{Ends, Scope};
use crate::state::{State, tables};
use epguard_common::{Addr, Denial, Suspect, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How much is judged at once.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// About so many endpoints, and VIPs.
    pub endpoints: usize,
}

/// Laying out so many VIPs takes about as long as judging an endpoint.
const VIPS: usize = 16;

/// And so does a look at so many pods that may hold an IP without showing it.
const UNSHOWN: usize = 16;

impl Default for Piece {
    fn default() -> Self {
        // Two milliseconds' worth.
        Self { endpoints: 128 }
    }
}

impl State {
    /// Draws the consequences of a change that end denials. Services have no VIPs until all is
    /// judged of which a denial may end.
    pub(crate) fn apply_consequences(&mut self, now: Duration, dirty: Dirty) {
        self.touched.add_changed(&dirty);
        let listed = dirty.services.values().flat_map(|scope| &scope.ips);
        self.orphan_ips.relisted(dirty.ips.iter().chain(listed));
        self.update_owners(now, &dirty);
        let drained = self.changed_draining(&dirty);
        self.lay_out_suspects(&drained);
        let concerns_orphan_ips = self.concerns_orphan_ips(&dirty);
        for (service, mut scope) in dirty.services {
            if scope.ends == Ends::ByStarts
                && self.denials.ips_ended_by_starts(&service).next().is_none()
            {
                scope.ends = Ends::None;
            }
            let was_suspended = self.queue.suspends(&service);
            self.queue.push(service.clone(), scope);
            let is_suspended = !was_suspended && self.queue.suspends(&service);
            // Without VIPs there is nothing to take away, and a restored one would lose its number.
            if is_suspended && self.layout.has_vips(&service) {
                self.lay_out_service(&service, &BTreeSet::new());
            }
        }
        if concerns_orphan_ips {
            self.prove_orphan_ips();
        }
        self.forget_unneeded(now, dirty.pods);
    }

    /// True if the change may concern an orphan IP: what shows it, or a pod of this node. While
    /// lists are applied, any may.
    fn concerns_orphan_ips(&self, dirty: &Dirty) -> bool {
        let is_own = |uid: &Uid| {
            let pod = self.cluster.pods.get(*uid).map(|record| &record.pod);
            pod.is_none_or(|pod| self.cluster.is_own(pod))
        };
        let listed = dirty.services.values().flat_map(|scope| &scope.ips);
        dirty.orphan_ips
            || self.is_half_applied()
            || dirty.pods.iter().any(is_own)
            || (dirty.ips.iter().chain(listed)).any(|ip| self.orphan_ips.mentions(*ip))
    }

    /// Drops those of the pods that the API no longer shows and that nothing refers to.
    pub(crate) fn forget_unneeded(&mut self, now: Duration, pods: impl IntoIterator<Item = Uid>) {
        for uid in pods {
            let absent = self
                .cluster
                .pods
                .get(uid)
                .is_some_and(|record| !record.present);
            if absent && !self.cluster.endpoint_index.knows(uid) && !self.orphan_ips.knows(uid) {
                self.cluster.forget_pod(now, uid);
            }
        }
    }

    /// Proves orphan IPs again. None is new while a list is applied: a pod further down may hold
    /// the IP.
    pub(crate) fn prove_orphan_ips(&mut self) {
        let owner = |ip| self.owners.get(&ip).map(|owner| owner.uid);
        let last_owner = |ip| owner(ip).or_else(|| self.generations.last_owner(ip));
        let mut terminated = if self.is_listed() {
            self.orphan_ips.proven(&self.cluster, last_owner)
        } else {
            BTreeMap::new()
        };
        let before = std::mem::take(&mut self.layout.tables.terminated);
        if self.is_half_applied() {
            let was_proven = |ip: &Addr, orphan_ip: &OrphanIp| {
                let before = before
                    .get(ip)
                    .filter(|before| before.dead == orphan_ip.dead);
                before.is_some_and(|before| before.lifted.is_none() || orphan_ip.lifted.is_some())
            };
            terminated.retain(|ip, orphan_ip| was_proven(ip, orphan_ip));
        }
        let differ = |ip: &&Addr| before.get(*ip) != terminated.get(*ip);
        let changed = before.keys().chain(terminated.keys()).filter(differ);
        self.touched.add(changed.copied());
        self.layout.tables.terminated = terminated;
    }

    /// The IPs that are counted as draining from now on, or no longer.
    fn changed_draining(&self, dirty: &Dirty) -> BTreeSet<Addr> {
        let pods = dirty
            .pods
            .iter()
            .filter_map(|uid| self.cluster.pods.get(*uid));
        let ips = pods
            .flat_map(|record| &record.pod.ips)
            .chain(&dirty.ips)
            .copied();
        let suspects = &self.layout.tables.suspects;
        let is_counted = |ip: &Addr| {
            suspects
                .get(ip)
                .is_some_and(|suspect| suspect.flags & Suspect::DRAINING != 0)
        };
        ips.filter(|ip| is_counted(ip) != self.cluster.is_draining(*ip))
            .collect()
    }

    fn update_owners(&mut self, now: Duration, dirty: &Dirty) {
        for ip in &dirty.ips {
            let before = self.owners.get(ip).copied();
            let mut after = tables::owner(&self.cluster, *ip);
            if let Some(owner) = &mut after {
                owner.generation = self.generations.owned(now, *ip, before.as_ref(), owner.uid);
            } else if let Some(before) = &before {
                self.generations.idle(*ip, before, now);
            }
            if after != before {
                let is_changed = |is_new| self.changed_owners.contains_key(&(is_new, *ip));
                let is_new = before.is_none() && !is_changed(false) || is_changed(true);
                self.changed_owners.insert((is_new, *ip), ());
                match after {
                    Some(owner) => drop(self.owners.insert(*ip, owner)),
                    None => drop(self.owners.remove(ip)),
                }
            }
        }
    }

    /// Judges about `most` endpoints, or a piece, of the Services whose turn it is.
    pub(crate) fn judge_queue(&mut self, now: Duration, most: usize) {
        let most = most.min(self.piece.endpoints);
        let (mut judged, mut longest) = (0, 0);
        self.judged = None;
        let mut changed = BTreeSet::new();
        while judged < most
            && let Some((service, mut scope)) = self.queue.pop()
        {
            scope.expand(&self.denials, &service, self.cluster.stale.ips(&service));
            let before = judged;
            judged += 1 + self.cluster.service(&service).map_or(0, vips) / VIPS;
            let mut ips = Vec::new();
            while (judged <= most || ips.is_empty())
                && let Some(ip) = scope.take_next()
            {
                judged += self.work_at(&service, ip);
                ips.push(ip);
            }
            let lists = scope.lists.clone();
            if scope.is_done() || scope.is_through {
                self.unjudged.remove(&service);
            }
            if !scope.is_done() {
                self.queue.push(service.clone(), scope);
            }
            changed.append(&mut self.judge_service(now, &service, &ips, &lists));
            if judged - before > longest {
                longest = judged - before;
                self.judged = Some(service);
            }
        }
        self.touched.add(changed.iter().copied());
        // Many Services may list one IP.
        self.lay_out_suspects(&changed);
        self.end_first_lists();
    }

    /// How much work it is to judge a Service at an IP, in endpoints.
    pub(crate) fn work_at(&self, service: &ObjectName, ip: Addr) -> usize {
        let own = self
            .cluster
            .service(service)
            .map(|service| Own::new(&self.cluster, service));
        let unshown = own
            .and_then(|own| own.count_unshown(ip))
            .unwrap_or_default();
        1 + self.cluster.endpoint_index.count_at(service, ip) + unshown / UNSHOWN
    }

    /// Judges the endpoints of a Service at some IPs, on lists that have come. Returns the IPs
    /// where a denial changed.
    fn judge_service(
        &mut self,
        now: Duration,
        service: &ObjectName,
        ips: &[Addr],
        lists: &[ReceivedList],
    ) -> BTreeSet<Addr> {
        self.cluster.compare_selector(service);
        let proven = self.prove(now, service, ips);
        let changed = self
            .denials
            .update_service(&self.cluster, now, service, ips, &proven, lists);
        self.lay_out_service(service, &changed);
        changed
    }

    /// The denials that are proven of a Service at some IPs. Keeps in mind those that a possible
    /// holder keeps from being proven.
    fn prove(
        &mut self,
        now: Duration,
        name: &ObjectName,
        ips: &[Addr],
    ) -> BTreeMap<Endpoint, Denial> {
        let service = self.cluster.service(name).filter(|_| self.is_listed());
        let mut proven = BTreeMap::new();
        for ip in ips {
            let verdicts =
                service.map(|service| judge(&self.cluster, service, *ip, &|_| String::new()));
            let (mut is_held, mut node) = (false, None);
            for (endpoint, verdict) in verdicts.into_iter().flatten() {
                match verdict {
                    Ok(denial) => drop(proven.insert(endpoint, denial)),
                    Err(NotProven::PossibleHolder(_)) => is_held = true,
                    Err(NotProven::NodeNotSeen(_, unseen)) => {
                        is_held = true;
                        node = Some(unseen.as_str().into());
                    }
                    Err(_) => {}
                }
            }
            self.possibly_held.set(now, name, *ip, is_held);
            self.node_checks.set(name, *ip, node);
        }
        proven
    }

    /// The next Node that has to be asked for, so that
    /// [`Fact::NodeSeen`](crate::facts::Fact::NodeSeen) shows whether it is still there. The time
    /// is that over which all agents spread such requests.
    pub fn take_node_check(&mut self, now: Duration) -> Option<(Text, Duration)> {
        self.node_checks.take(now, self.cluster.nodes.count())
    }

    /// Has Services judged on a list that has come.
    pub(crate) fn judge_on(&mut self, list: &ReceivedList, services: BTreeSet<ObjectName>) {
        for service in services {
            self.queue.push(service, Scope::on(list.clone()));
        }
        self.end_first_lists();
    }

    /// What an earlier process carried out is proven anew, or not, once all Services are judged on
    /// the first lists.
    fn end_first_lists(&mut self) {
        if self.is_synced() {
            self.denials.restored.clear();
            self.inherited = None;
        }
    }

    /// Puts the denials of a Service at some IPs into the tables.
    pub(crate) fn lay_out(&mut self, service: &ObjectName, ips: &BTreeSet<Addr>) {
        self.lay_out_service(service, ips);
        self.lay_out_suspects(ips);
    }

    /// The same without what the IPs have in common with those of other Services.
    pub(crate) fn lay_out_service(&mut self, service: &ObjectName, ips: &BTreeSet<Addr>) {
        for ip in ips {
            self.layout.endpoints(&self.denials, service, *ip);
        }
        self.layout
            .service((&self.cluster, &self.denials), service, &self.queue);
    }

    pub(crate) fn lay_out_suspects(&mut self, ips: &BTreeSet<Addr>) {
        for ip in ips {
            self.layout.suspect(&self.cluster, &self.denials, *ip);
        }
    }

    /// The collections of which the state would request a list now, whole or narrow.
    pub fn wanted_lists(&self) -> BTreeSet<Watched> {
        self.wanted_second_lists()
            .into_keys()
            .map(|list| list.kind)
            .collect()
    }

    /// The lists to request now.
    pub fn take_second_lists(&mut self, now: Duration) -> Vec<SecondList> {
        let (wanted, spread) = (self.wanted_second_lists(), self.spread());
        self.second_lists.take_due(now, &wanted, spread)
    }

    fn wanted_second_lists(&self) -> Wanted {
        let mut wanted = self.denials.awaited_lists(&self.cluster);
        // An IP of a death on this node that one list has shown is unused only if none of the
        // node's pods may hold it.
        if self.is_synced() && self.orphan_ips.has_doubtful_death(&self.cluster) {
            let selection = Some(Selection::OnNode(self.node().into()));
            wanted.insert(
                SecondList {
                    kind: Watched::Pods,
                    selection,
                },
                BTreeSet::new(),
            );
        }
        wanted
    }

    /// The time over which all agents spread such lists.
    pub fn spread(&self) -> Duration {
        request_spread(self.cluster.nodes.count())
    }

    /// Only observes a Service from now on: a denial of it was wrong.
    pub fn demote(&mut self, now: Duration, service: &ObjectName) {
        if self.cluster.demoted.insert(service.clone()) {
            self.apply_consequences(now, Dirty::of_service(service));
        }
    }

    /// Services that are only observed because a denial was wrong.
    pub fn demoted(&self) -> &BTreeSet<ObjectName> {
        &self.cluster.demoted
    }

    /// Carries out the stopped denials of a Service, or of all, without a second list, and ends that
    /// it is only observed because a denial was wrong. Returns how many denials were stopped.
    pub fn release_breaker(&mut self, now: Duration, service: Option<&ObjectName>) -> usize {
        let is_released = |name: &ObjectName| service.is_none_or(|service| service == name);
        let demoted = &mut self.cluster.demoted;
        let promoted: Vec<ObjectName> = demoted.extract_if(.., is_released).collect();
        for name in &promoted {
            self.apply_consequences(now, Dirty::of_service(name));
        }
        let released = self.denials.release(&self.cluster, service);
        for (name, endpoints) in &released {
            let ips = endpoints.iter().map(|endpoint| endpoint.ip).collect();
            self.lay_out(name, &ips);
            self.touched.add(ips);
        }
        released.values().map(Vec::len).sum()
    }
}

/// About how many VIPs a Service has, each with a port.
fn vips(service: &Service) -> usize {
    service.vips.len() * service.ports.len()
}
