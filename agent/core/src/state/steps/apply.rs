//! Facts are applied at once, but for lists: these take as many steps as they need. What a fact may
//! contradict is not in force from then on; what it may prove waits for its judgement.

use super::lists::{List, Objects};
use crate::facts::{Change, Fact, ObjectName, Pod, Protocol, Watched};
use crate::state::State;
use crate::state::breaker::ReceivedList;
use crate::state::dirty::{self, Dirty};
use crate::state::index::endpoints::Endpoint;
use crate::state::index::vips::Claims;
use crate::state::node_checks::NodeChecks;
use crate::state::possibly_held::PossiblyHeld;
use crate::state::review::Case;
use crate::state::tables::layout::Layout;
use crate::state::tables::{Changes, Inherited, Tables};
use epguard_common::{Event, Reason, ServiceNumber};
use std::collections::BTreeSet;
use std::time::Duration;

impl State {
    /// Applies a fact, and judges all that it concerns.
    pub fn apply(&mut self, now: Duration, fact: Fact) {
        self.begin_fact(now, fact);
        while self.run_step(now, usize::MAX) {}
    }

    /// Applies the passing of time, and judges all that it concerns.
    pub fn tick(&mut self, now: Duration) {
        self.begin_tick(now);
        while self.run_step(now, usize::MAX) {}
    }

    /// Applies a fact that was received at that moment. Of a long list only begins to:
    /// [`State::run_step`] applies the rest. Services whose denials the fact may contradict have no
    /// VIPs until `run_step` has judged them.
    pub fn begin_fact(&mut self, received: Duration, fact: Fact) {
        self.begin_list(received, received, fact);
    }

    /// The same for a list of everything, which was requested at the moment `sent`.
    ///
    /// Facts of one watch have to come in its order. While a list is applied,
    /// [`State::is_applying`], none of its watch may come without delay: the rest of the list is
    /// applied before.
    pub fn begin_list(&mut self, sent: Duration, received: Duration, mut fact: Fact) {
        while Watched::of(&fact).is_some_and(|watched| self.is_applying(watched)) {
            self.run_step(received, usize::MAX);
        }
        let pods = shown_by(&mut fact);
        for pod in pods.iter_mut() {
            self.cluster.drop_unread(pod);
        }
        self.start_over_if_revived(received, pods);
        let levelled = self.cluster.pods.listed;
        let Some(list) = ReceivedList::from_fact(&fact, sent) else {
            return self.apply_one(received, fact, None);
        };
        match Objects::from_list(&mut self.cluster, fact) {
            Ok(objects) => {
                let rest = List {
                    received,
                    request: list,
                    objects,
                    concerned: BTreeSet::new(),
                };
                self.lists.insert(rest.request.kind, rest);
                let mut dirty = Dirty::default();
                self.add_levelled(levelled, &mut dirty);
                self.process_changes(received, dirty);
            }
            Err(fact) => self.apply_one(received, fact, Some(list)),
        }
    }

    /// Drops everything that the API has shown, deaths included: it went back in time, and a
    /// restored pod may run again under its old UID. Nothing is denied until all is listed anew.
    pub fn start_over(&mut self, now: Duration) {
        self.revivals.deaths.clear();
        self.list_anew(now);
    }

    /// The dead pod that the API has shown alive since the last call, if any. The state has started
    /// over and needs a list of every watch.
    pub fn take_revived(&mut self) -> Option<ObjectName> {
        self.revivals.untaken.take()
    }

    /// Stores what an earlier process proved; it is restored once everything has been listed.
    pub fn restore(&mut self, tables: Tables) {
        self.layout
            .changes
            .extend(Changes::between(&tables, &self.layout.tables));
        self.inherited = Some(Inherited::new(tables.clone()));
        self.restored = Some(tables);
    }

    /// Applies the passing of time: drops old endpoints. Once a second is enough.
    pub fn begin_tick(&mut self, now: Duration) {
        self.review.tick(now);
        let mut forgotten = Dirty::default();
        forgotten.changed_endpoints(self.cluster.endpoint_index.expire(now), &mut self.cluster);
        forgotten.changed_endpoints(self.cluster.endpoint_index.retry(now), &mut self.cluster);
        let mut taken_in = Claims::default();
        for name in self.cluster.retry_vips() {
            if let Some(service) = self.cluster.service(&name) {
                taken_in.add(Claims::beyond(service, None));
            }
        }
        forgotten.beside(&self.cluster, &taken_in);
        forgotten
            .pods
            .extend(self.orphan_ips.expire(&self.cluster, now));
        let (nodes, addresses) = self.cluster.forget_gone(now);
        forgotten.addresses(&self.cluster, addresses);
        let heirs = self.cluster.forget_former_claims(now);
        forgotten.vips(
            heirs
                .iter()
                .filter(|service| self.cluster.stale.lists(service)),
        );
        forgotten.ended_on(&self.cluster, &nodes);
        let believed = self.cluster.forget_strays(now);
        forgotten.ranges(&self.cluster, &believed);
        // While everything is listed anew, no IP seems to be in use.
        if self.is_listed {
            let in_use = |ip| self.orphan_ips.mentions(ip) || self.cluster.names_own_pod(ip);
            self.generations.expire(now, in_use);
        }
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
        let is_stopped = match (&service, endpoint) {
            (Some(service), Some(endpoint)) => self.is_stopped(service, &endpoint),
            _ => false,
        };
        let case = Case {
            ip: event.dst,
            reason,
            service,
            port: event.dst_port,
            protocol: event.protocol,
            meant: event.dead_uid,
        };
        let at = Duration::from_nanos(event.at_ns);
        self.review
            .add_denied(&self.cluster, at, case, event.owner_uid, is_stopped);
    }

    /// True if something is left to do or to write.
    pub fn has_backlog(&self) -> bool {
        self.is_half_applied()
            || !self.queue.is_empty()
            || self.is_synced() && !self.changed_owners.is_empty()
    }

    /// Applies about `most` objects more of a list that was begun, or else judges Services that
    /// wait. False once nothing is left to do.
    pub fn run_step(&mut self, now: Duration, most: usize) -> bool {
        match self.lists.pop_first() {
            Some((watched, list)) => self.apply_part(watched, list, most),
            None => self.judge_queue(now, most),
        }
        self.is_half_applied() || !self.queue.is_empty()
    }

    /// The same facts with every verdict judged again, at the cost of the whole cluster. It differs
    /// from the result of the single facts only if one of them touched more than its dirty set
    /// lists.
    pub fn judged_afresh(&self, now: Duration) -> Self {
        let mut fresh = self.clone();
        fresh.denials.forget_proofs();
        for (ip, owner) in std::mem::take(&mut fresh.owners).iter() {
            fresh.generations.idle(*ip, owner, now);
        }
        let numbers = std::mem::take(&mut fresh.layout.numbers);
        fresh.layout = Layout::new(numbers);
        fresh.lists.clear();
        fresh.orphan_ips.relisted_everywhere();
        let services: Vec<ObjectName> = fresh.cluster.services.keys().cloned().collect();
        for name in &services {
            fresh.cluster.doubt_selector(name);
        }
        let everything = Dirty::of_all(&fresh.cluster);
        fresh.apply_consequences(now, everything);
        while fresh.run_step(now, usize::MAX) {}
        fresh
    }

    fn apply_one(&mut self, now: Duration, fact: Fact, list: Option<ReceivedList>) {
        let levelled = self.cluster.pods.listed;
        let mut dirty = match fact {
            Fact::Presence(presence) => {
                self.orphan_ips.note(presence);
                Dirty {
                    orphan_ips: true,
                    ..Dirty::default()
                }
            }
            Fact::NodeSeen(seen) => {
                self.cluster.nodes.see(&seen);
                let mut dirty = Dirty::default();
                for service in self.node_checks.shown(&seen.name) {
                    dirty.begins(&service);
                }
                dirty
            }
            fact => dirty::update_index(&mut self.cluster, now, fact),
        };
        self.add_levelled(levelled, &mut dirty);
        self.process_changes(now, dirty);
        if let Some(list) = list {
            self.listed(now, list);
        }
    }

    /// Draws the consequences of a change of the index.
    pub(crate) fn process_changes(&mut self, now: Duration, mut dirty: Dirty) {
        self.review.again(&self.cluster, &dirty);
        if let Some(inherited) = &mut self.inherited {
            inherited.contradict(&self.cluster, &dirty);
        }
        let displaced = self.orphan_ips.record_dead(&self.cluster, now, &dirty.pods);
        dirty.pods.extend(displaced);
        self.apply_consequences(now, dirty);
    }

    fn start_over_if_revived(&mut self, now: Duration, shown: &mut [Pod]) {
        if self.revivals.notice(&mut self.cluster, now, shown) {
            self.list_anew(now);
        }
    }

    fn list_anew(&mut self, now: Duration) {
        self.cluster.start_over(now);
        self.orphan_ips.start_over();
        self.denials.start_over();
        (self.node_checks, self.possibly_held) = (NodeChecks::default(), PossiblyHeld::default());
        (self.listed, self.is_listed) = (BTreeSet::new(), false);
        self.restored = None;
        if let Some(inherited) = &mut self.inherited {
            inherited.end_all();
        }
        self.lists.clear();
        self.unjudged.clear();
        let mut dirty = Dirty {
            orphan_ips: true,
            ips: self.owners.keys().copied().collect(),
            ..Dirty::default()
        };
        dirty.pairs(
            self.denials
                .iter()
                .map(|(service, endpoint, _)| (service, endpoint.ip)),
        );
        self.apply_consequences(now, dirty);
    }
}

/// The pods that a fact shows.
fn shown_by(fact: &mut Fact) -> &mut [Pod] {
    match fact {
        Fact::Pod(Change::Reset(pods)) => pods,
        Fact::Pod(Change::Applied(pod) | Change::Deleted(pod)) => std::slice::from_mut(pod),
        Fact::Pod(Change::Part(part)) => &mut part.objects,
        _ => &mut [],
    }
}
