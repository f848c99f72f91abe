//! Facts are applied at once, but for lists: these take as many steps as they need.

use super::judge::AT_ONCE;
use super::lists::{Objects, Task};
use crate::facts::{Change, Fact, Name, Presence, Protocol, Watched};
use crate::state::State;
use crate::state::denials::opinions::ReceivedList;
use crate::state::dirty::{self, Dirty};
use crate::state::index::endpoints::Endpoint;
use crate::state::index::vips::Claims;
use crate::state::node_checks::NodeChecks;
use crate::state::possibly_held::PossiblyHeld;
use crate::state::review::Case;
use crate::state::tables::layout::Layout;
use crate::state::tables::{Changes, Tables};
use epguard_common::{Denial, Event, Reason, ServiceNumber, Uid, UidState};
use std::collections::BTreeSet;
use std::time::Duration;

impl State {
    /// Applies a fact; afterwards [`State::tables`] is what the maps should hold.
    pub fn apply(&mut self, now: Duration, fact: Fact) {
        self.begin_fact(now, fact);
        while self.run_step(now, usize::MAX) {}
    }

    /// Applies a fact, or begins to, if it is a list: [`State::run_step`] applies the rest. Denials that a fact contradicts
    /// end at once.
    pub fn begin_fact(&mut self, now: Duration, mut fact: Fact) {
        // Facts of the node come at any time; those of the API in the order in which it sent them.
        let is_of_node = matches!(&fact, Fact::Presence(_) | Fact::LocalAddresses(_) | Fact::SocketLb(_));
        while !is_of_node && self.is_unfinished() {
            self.run_step(now, usize::MAX);
        }
        self.start_over_if_revived(now, &mut fact);
        let levelled = self.cluster.pods.listed;
        match Objects::from_list(&mut self.cluster, fact) {
            Ok((watched, objects)) => {
                self.task = Some(Task::Apply(watched, objects));
                let mut dirty = Dirty::default();
                self.add_levelled(levelled, &mut dirty);
                self.process_changes(now, dirty);
            }
            Err(fact) => self.apply_one(now, fact),
        }
    }

    /// Drops everything that the API has shown, deaths included: it went back in time, and a restored pod may run again
    /// under its old UID. Nothing is denied until all is listed anew.
    pub fn start_over(&mut self, now: Duration) {
        self.revivals.deaths.clear();
        self.list_anew(now);
    }

    /// The dead pod that the API has shown alive since the last call, if any. The state has started over and needs a list of
    /// every watch.
    pub fn take_revived(&mut self) -> Option<Name> {
        self.revivals.untaken.take()
    }

    /// Stores what an earlier process proved; it is restored once everything has been listed.
    pub fn restore(&mut self, tables: Tables) {
        self.layout.changes.extend(Changes::between(&tables, &self.layout.tables));
        self.restored = Some(tables);
    }

    /// Applies the passing of time: drops old endpoints. Once a second is enough.
    pub fn tick(&mut self, now: Duration) {
        self.review.tick(now);
        let mut forgotten = Dirty::default();
        forgotten.changed_endpoints(self.cluster.endpoint_index.expire(now), &mut self.cluster);
        forgotten.changed_endpoints(self.cluster.endpoint_index.retry(now), &mut self.cluster);
        for name in self.cluster.retry_vips() {
            if let Some(service) = self.cluster.service(&name) {
                forgotten.beside(&self.cluster, &Claims::beyond(service, None));
            }
        }
        forgotten.pods.extend(self.orphan_ips.expire(&self.cluster, now));
        let (nodes, addresses) = self.cluster.forget_gone(now);
        forgotten.addresses(&self.cluster, addresses);
        forgotten.ended_on(&self.cluster, &nodes);
        let believed = self.cluster.forget_strays(now);
        forgotten.ranges(&self.cluster, &believed);
        let orphan_ips = &self.orphan_ips;
        self.generations.expire(now, |ip| orphan_ips.mentions(ip));
        forgotten.orphan_ips = true;
        self.apply_consequences(now, forgotten);
        if !self.is_half_applied() {
            for (service, ips) in self.layout.retriable() {
                self.lay_out(&service, &ips);
            }
        }
    }

    /// Notes a packet to a denied endpoint.
    pub fn hit(&mut self, now: Duration, service: ServiceNumber, endpoint: &Endpoint) {
        if let Some(service) = self.layout.numbers.service(service).cloned() {
            self.cluster.endpoint_index.hit(now, &service, endpoint);
        } else {
            self.orphan_ips.hit(now, endpoint.ip);
        }
    }

    /// Stores a packet that was denied, or would have been, for review when more is known.
    pub fn denied(&mut self, event: &Event) {
        let Some(reason) = Reason::from_number(event.reason) else {
            return;
        };
        let service = self.layout.numbers.service(event.service).cloned();
        if service.is_none() && reason != Reason::Terminated {
            return;
        }
        let endpoint = Protocol::from_repr(event.protocol).map(|protocol| Endpoint {
            ip: event.dst,
            port: event.dst_port,
            protocol,
        });
        let held = service.as_ref().zip(endpoint);
        let held = held.is_some_and(|(service, endpoint)| self.is_pending(service, &endpoint));
        let case = Case {
            ip: event.dst,
            reason,
            service,
            port: event.dst_port,
            protocol: event.protocol,
            meant: event.dead_uid,
        };
        let at = Duration::from_nanos(event.at_ns);
        self.review.denied(&self.cluster, at, case, event.owner_uid, held);
    }

    /// True if a list is applied only in part: other facts of the API have to wait.
    pub const fn is_unfinished(&self) -> bool {
        self.task.is_some()
    }

    /// True between the parts of a list: no Service is judged, for an object further down may contradict the one at hand. Those
    /// that a part concerns have no VIPs until the list is applied.
    pub const fn is_half_applied(&self) -> bool {
        matches!(self.task, Some(Task::Apply(..)))
    }

    /// True if something is left to do or to write.
    pub fn has_backlog(&self) -> bool {
        self.is_unfinished() || !self.queue.is_empty() || self.is_synced() && !self.changed_owners.is_empty()
    }

    /// Applies about `most` objects more of the list that was begun, or else judges Services that wait. False once nothing is left to
    /// do.
    pub fn run_step(&mut self, now: Duration, most: usize) -> bool {
        match self.task.take() {
            Some(Task::Apply(watched, mut objects)) => {
                let mut dirty = Dirty::default();
                let more = objects.apply(&mut self.cluster, now, &mut dirty, most);
                self.task = Some(Task::Apply(watched, objects));
                self.process_changes(now, dirty);
                if !more {
                    self.listed(now, watched);
                }
            }
            task => {
                self.task = task;
                self.judge_queue(now, most.min(AT_ONCE));
            }
        }
        self.is_unfinished() || !self.queue.is_empty()
    }

    /// The same facts with every verdict judged again, at the cost of the whole cluster. It differs from the result of
    /// the single facts only if one of them touched more than its dirty set lists.
    pub fn judged_afresh(&self, now: Duration) -> Self {
        let mut fresh = self.clone();
        fresh.denials.forget_proofs();
        for (ip, owner) in std::mem::take(&mut fresh.owners).iter() {
            fresh.generations.idle(*ip, owner, now);
        }
        let numbers = std::mem::take(&mut fresh.layout.numbers);
        fresh.layout = Layout::new(numbers);
        fresh.task = None;
        fresh.orphan_ips.relisted_everywhere();
        let services: Vec<Name> = fresh.cluster.services.keys().cloned().collect();
        for name in &services {
            fresh.cluster.doubt_selector(name);
        }
        let everything = Dirty::of_all(&fresh.cluster);
        fresh.apply_consequences(now, everything);
        while fresh.run_step(now, usize::MAX) {}
        fresh
    }

    fn apply_one(&mut self, now: Duration, fact: Fact) {
        let list = ReceivedList::from_fact(&fact);
        let levelled = self.cluster.pods.listed;
        let mut dirty = match fact {
            Fact::Presence(presence) => {
                self.review.note(now, &presence);
                if let Presence::Spoke(ip, at) = presence {
                    self.orphan_ips.spoke(ip, at);
                }
                Dirty { orphan_ips: true, ..Dirty::default() }
            }
            Fact::NodeSeen(seen) => {
                self.cluster.nodes.see(&seen);
                let waiting = self.node_checks.shown(&seen.name);
                let mut dirty = Dirty::default();
                dirty.pairs(waiting.iter().map(|(service, ip)| (service, *ip)));
                dirty
            }
            fact => dirty::update_index(&mut self.cluster, now, fact),
        };
        self.add_levelled(levelled, &mut dirty);
        if let Some(list) = list.clone().filter(|list| list.kind.bears_proofs()) {
            let services = self.services_concerned(&list, &dirty);
            self.orphan_ips.listed(&self.cluster, &list);
            self.judge_on(list, services);
        }
        self.process_changes(now, dirty);
        match list {
            Some(list) if list.part.is_none() => self.listed(now, list.kind),
            Some(list) => self.opinions.received(&list),
            None => {}
        }
    }

    /// Draws the consequences of a change of the index.
    fn process_changes(&mut self, now: Duration, mut dirty: Dirty) {
        self.review.again(&self.cluster, &dirty);
        let displaced = self.orphan_ips.record_dead(&self.cluster, now, &dirty.pods);
        dirty.pods.extend(displaced);
        self.apply_consequences(now, dirty);
    }

    /// Confirms pending denials by a list that was applied in whole, and has all endpoints judged that may be denied.
    fn listed(&mut self, now: Duration, watched: Watched) {
        let was_listed = self.is_listed();
        self.listed.insert(watched);
        let mut list = Some(watched).filter(|watched| watched.bears_proofs());
        // Pods of the tables: their orphan IPs are restored with them, and no others are recorded.
        let mut restored = Vec::new();
        let mut dirty = Dirty { orphan_ips: true, ..Dirty::default() };
        if was_listed != self.is_listed() {
            // Whichever list came last: the first lists count as one.
            list = Some(Watched::EndpointSlices);
            if let Some(tables) = self.restored.take() {
                restored = self.apply_restored(&tables, now);
                // Numbers of Services without denials are released.
                dirty.vips(self.layout.numbers.iter().map(|(service, _)| service));
            }
            dirty.pods.extend(self.revivals.restore_deaths(&mut self.cluster, now));
            let dead: Vec<Uid> = restored.iter().chain(&dirty.pods).copied().collect();
            for uid in &dead {
                self.cluster.index_stale(*uid);
            }
            let index = &self.cluster.endpoint_index;
            let services = dead.iter().flat_map(|uid| index.of_pod(*uid)).map(|(service, _)| service.clone());
            for service in services.collect::<BTreeSet<Name>>() {
                dirty.selector(&mut self.cluster, &service);
            }
        }
        self.task = None;
        if let Some(list) = list.map(ReceivedList::whole).filter(|_| self.is_listed()) {
            self.opinions.received(&list);
            self.judge_on(list, self.services_to_judge());
        }
        self.process_changes(now, dirty);
        self.forget_unneeded(restored);
    }

    fn start_over_if_revived(&mut self, now: Duration, fact: &mut Fact) {
        let shown = match fact {
            Fact::Pod(Change::Reset(pods)) => pods.as_mut_slice(),
            Fact::Pod(Change::Applied(pod) | Change::Deleted(pod)) => std::slice::from_mut(pod),
            Fact::Pod(Change::Part(part)) => part.objects.as_mut_slice(),
            _ => return,
        };
        if self.revivals.notice(&mut self.cluster, now, shown) {
            self.list_anew(now);
        }
    }

    fn list_anew(&mut self, now: Duration) {
        self.cluster.start_over(now);
        self.orphan_ips.start_over();
        self.denials.start_over();
        (self.node_checks, self.possibly_held) = (NodeChecks::default(), PossiblyHeld::default());
        (self.listed, self.is_judged) = (BTreeSet::new(), false);
        self.restored = None;
        self.task = None;
        let mut dirty =
            Dirty { orphan_ips: true, ips: self.owners.keys().copied().collect(), ..Dirty::default() };
        dirty.pairs(self.denials.iter().map(|(service, endpoint, _)| (service, endpoint.ip)));
        self.apply_consequences(now, dirty);
    }

    /// Adds where denials and owners rest on the order of claims, if a list has levelled that since.
    fn add_levelled(&self, order: u64, dirty: &mut Dirty) {
        if order == self.cluster.pods.listed {
            return;
        }
        let rests_on_order =
            |proven: &Denial| proven.uid_state == UidState::Retired && proven.owner_uid != Uid::NONE;
        let ordered = self.denials.iter().filter(|(.., denied)| rests_on_order(&denied.proven));
        dirty.pairs(ordered.map(|(service, endpoint, _)| (service, endpoint.ip)));
        dirty.ips.extend(self.cluster.pods.shared_ips());
    }

    /// The Services that have denials, or may get some.
    fn services_to_judge(&self) -> BTreeSet<Name> {
        let services = self.cluster.stale.services().chain(self.denials.services());
        services.cloned().collect()
    }

    /// The Services whose denials a list confirms, ends or may begin.
    fn services_concerned(&self, list: &ReceivedList, dirty: &Dirty) -> BTreeSet<Name> {
        if list.part.is_none() {
            return self.services_to_judge();
        }
        let changed = dirty.services.keys();
        let waiting = self.denials.waiting(&self.cluster, list);
        changed.chain(waiting).cloned().collect()
    }
}
