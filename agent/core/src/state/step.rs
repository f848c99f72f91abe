//! The steps of the state: from a fact to the tables.
//!
//! ```text
//! fact -> ClusterIndex::apply -> Changed -> affected -> Affected
//!      -> review, owners, orphan IPs; Services to judge -> Queue
//! Queue -> judge_endpoints -> Denials, which the Breaker may stop -> Layout of the Tables
//! ```
//!
//! Facts are applied at once, but for lists: these take as many steps as they need. What a fact may
//! contradict is not in force from then on; what it may prove waits for its judgement.

use super::State;
use super::affected::{Affected, affected};
use super::breaker::ReceivedList;
use super::index::changed::Changed;
use super::index::endpoints::Endpoint;
use super::lists::{HalfAppliedList, Lists};
use super::node_checks::NodeChecks;
use super::not_proven::NotProven;
use super::possibly_held::PossiblyHeld;
use super::proof::{judge_endpoints, work_to_judge};
use super::queue::{Ends, Scope};
use super::review::PastDenial;
use super::tables::layout::Layout;
use super::tables::restore::RestoredProofs;
use super::tables::{Changes, Inherited, Tables};
use crate::facts::{
    BreakerRelease, Change, Fact, ObjectName, Pod, Presence, Protocol, Service, Watched,
};
use epguard_common::{Addr, Denial, Event, Reason, ServiceNumber, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Laying out so many VIPs takes about as long as judging an endpoint.
const VIPS: usize = 16;

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
        self.read_pods(received, shown_by(&mut fact));
        let Some(request) = ReceivedList::from_fact(&fact, sent) else {
            return self.apply_fact(received, fact);
        };
        let mut changed = Changed::default();
        match self.cluster.begin_list(fact, &mut changed) {
            Ok(objects) => {
                self.lists.begin(HalfAppliedList {
                    received,
                    request,
                    objects,
                    concerned: BTreeSet::new(),
                });
                let affected = self.affected_by(&changed);
                self.follow_up(received, affected);
            }
            Err(fact) => {
                self.apply_fact(received, fact);
                self.end_list(received, request);
            }
        }
    }

    /// Applies the passing of time: drops old endpoints. Once a second is enough.
    pub fn begin_tick(&mut self, now: Duration) {
        self.review.drop_closed(now);
        let changed = self.cluster.expire(now);
        let mut affected = self.affected_by(&changed);
        affected.orphan_ips = true;
        let expired = self.orphan_ips.expire(&self.cluster, now);
        affected.pods.extend(expired);
        // While everything is listed anew, no IP seems to be in use.
        if self.is_listed() {
            let in_use = |ip| self.orphan_ips.mentions(ip) || self.cluster.names_own_pod(ip);
            self.owners.expire(now, in_use);
        }
        self.end_and_queue(now, affected);
        if !self.is_half_applied() {
            for (service, ips) in self.layout.retriable() {
                self.lay_out(&service, &ips);
            }
        }
    }

    /// Applies about `most` objects more of a list that was begun, or else judges Services that
    /// wait. False once nothing is left to do.
    pub fn run_step(&mut self, now: Duration, most: usize) -> bool {
        if self.is_half_applied() {
            self.apply_part(most);
        } else {
            self.judge_piece(now, most);
        }
        self.is_half_applied() || !self.queue.is_empty()
    }

    /// Drops everything that the API has shown, deaths included: it went back in time, and a
    /// restored pod may run again under its old UID. Nothing is denied until all is listed anew.
    pub fn start_over(&mut self, now: Duration) {
        self.revivals.forget_deaths();
        self.listed_since_rewind.clear();
        self.list_anew(now);
    }

    /// Stores that a watch has listed everything, also that of the mode policy, which shows no fact
    /// of the state.
    pub fn set_listed(&mut self, watched: Watched) {
        self.listed_since_rewind.insert(watched);
    }

    /// Stores what an earlier process proved; it is restored once everything has been listed.
    pub fn restore(&mut self, tables: Tables) {
        self.layout
            .changes
            .extend(Changes::between(&tables, &self.layout.tables));
        self.inherited = Some(Inherited::new(tables.clone()));
        self.restored = Some(tables);
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
    pub fn add_denied_packet(&mut self, event: &Event) {
        let Some(reason) = Reason::from_number(event.reason) else {
            return;
        };
        let service = self.layout.numbers.service(event.service).cloned();
        if service.is_none() && reason != Reason::Terminated {
            return;
        }
        let is_stopped = match (&service, Protocol::from_repr(event.protocol)) {
            (Some(service), Some(protocol)) => {
                let endpoint = Endpoint {
                    ip: event.dst,
                    port: event.dst_port,
                    protocol,
                };
                self.is_stopped(service, &endpoint)
            }
            _ => false,
        };
        let case = PastDenial {
            ip: event.dst,
            reason,
            service,
            port: event.dst_port,
            protocol: event.protocol,
            meant: event.dead_uid,
        };
        let seen_at = Duration::from_nanos(event.at_ns);
        self.review
            .add_denied(&self.cluster, seen_at, case, event.owner_uid, is_stopped);
    }

    /// Takes in the resourceVersion of a fact, or of a bookmark, of any watch: what the breaker stops
    /// from now on has seen it.
    pub fn see_resource_version(&mut self, version: u64) {
        self.cluster.see_resource_version(version);
    }

    /// Only observes a Service from now on: a denial of it was wrong.
    pub fn demote(&mut self, now: Duration, service: &ObjectName) {
        if self.cluster.demote(service) {
            self.end_and_queue(now, Affected::only_service(service));
        }
    }

    /// Carries out the stopped denials of a Service, or of all, without a second list, and ends
    /// that it is only observed because a denial was wrong. Returns how many denials were stopped.
    pub fn release_breaker(&mut self, now: Duration, service: Option<&ObjectName>) -> usize {
        for promoted in self.cluster.promote(service) {
            self.end_and_queue(now, Affected::only_service(&promoted));
        }
        self.release_stopped(&BreakerRelease::of_all_stopped(service))
    }

    /// Carries out stopped denials without a second list. Returns how many there were.
    pub fn release_stopped(&mut self, release: &BreakerRelease) -> usize {
        let released = self.denials.release(&self.cluster, release);
        for (name, endpoints) in &released {
            let ips = endpoints.iter().map(|endpoint| endpoint.ip).collect();
            self.lay_out(name, &ips);
            self.ips_to_record.add(ips);
        }
        released.values().map(Vec::len).sum()
    }

    /// The same facts with every verdict judged again, at the cost of the whole cluster. It differs
    /// from the result of the single facts only if one of them affected more than `affected`
    /// finds.
    pub fn judged_afresh(&self, now: Duration) -> Self {
        let mut fresh = self.clone();
        fresh.denials.forget_proofs();
        fresh.owners.clear(now);
        let numbers = std::mem::take(&mut fresh.layout.numbers);
        fresh.layout = Layout::new(numbers);
        fresh.lists.drop_half_applied();
        fresh.orphan_ips.forget_all_listings();
        fresh.cluster.doubt_all_selectors();
        let everything = Affected::everything(&fresh.cluster);
        fresh.end_and_queue(now, everything);
        while fresh.run_step(now, usize::MAX) {}
        fresh
    }

    /// Applies a fact that is no list of many objects.
    fn apply_fact(&mut self, now: Duration, fact: Fact) {
        let affected = match fact {
            Fact::Presence(presence) => {
                self.orphan_ips.apply(presence);
                Affected::only_orphan_ips()
            }
            Fact::NodeSeen(seen) => {
                let node = seen.name.clone();
                let changed = self.cluster.apply(now, Fact::NodeSeen(seen));
                let mut affected = self.affected_by(&changed);
                for service in self.node_checks.end_for(&node) {
                    affected.mark_beginning(&service);
                }
                affected
            }
            fact => {
                let changed = self.cluster.apply(now, fact);
                self.affected_by(&changed)
            }
        };
        self.follow_up(now, affected);
    }

    /// What a change of the index affects, with what rests on the order of claims.
    fn affected_by(&self, changed: &Changed) -> Affected {
        let mut affected = affected(changed, &self.cluster);
        if changed.levelled {
            affected.add_levelled(&self.cluster, &self.denials);
        }
        affected
    }

    /// Follows up a change of the index: reviews past denials, ends what it contradicts of an
    /// earlier process, records deaths at orphan IPs, and ends and queues the rest.
    fn follow_up(&mut self, now: Duration, mut affected: Affected) {
        self.review.reconsider(&self.cluster, &affected);
        if let Some(inherited) = &mut self.inherited {
            inherited.contradict(&self.cluster, &affected);
        }
        let displaced = self
            .orphan_ips
            .record_dead(&self.cluster, now, &affected.pods);
        affected.pods.extend(displaced);
        self.end_and_queue(now, affected);
    }

    /// Ends at once what is affected and may end, and queues the Services to judge. These have no
    /// VIPs until all is judged of which a denial may end.
    fn end_and_queue(&mut self, now: Duration, affected: Affected) {
        self.ips_to_record.add_affected(&affected);
        self.orphan_ips.forget_listings(affected.all_ips());
        self.owners.update(&self.cluster, now, &affected.ips);
        let drained = self.changed_draining(&affected);
        self.lay_out_suspects(&drained);
        let concerns_orphan_ips = self.concerns_orphan_ips(&affected);
        for (service, scope) in affected.services {
            self.queue_service(&service, scope);
        }
        if concerns_orphan_ips {
            self.prove_orphan_ips();
        }
        self.forget_unneeded(now, affected.pods);
    }

    fn queue_service(&mut self, service: &ObjectName, mut scope: Scope) {
        if scope.ends == Ends::ByStarts
            && self.denials.ips_ended_by_starts(service).next().is_none()
        {
            scope.ends = Ends::None;
        }
        let was_suspended = self.queue.suspends(service);
        self.queue.push(service.clone(), scope);
        let is_suspended = !was_suspended && self.queue.suspends(service);
        // Without VIPs there is nothing to take away, and a restored one would lose its number.
        if is_suspended && self.layout.has_vips(service) {
            self.lay_out_service(service, &BTreeSet::new());
        }
    }

    /// Judges about `most` endpoints, or a piece, of the Services whose turn it is.
    fn judge_piece(&mut self, now: Duration, most: usize) {
        let most = most.min(self.piece.endpoints);
        let mut judged = 0;
        let mut longest = 0;
        self.judged = None;
        let mut changed = BTreeSet::new();
        while judged < most
            && let Some((service, mut scope)) = self.queue.pop()
        {
            scope.expand(&self.denials, &service, self.cluster.stale.ips(&service));
            let mut work = 1 + self.cluster.service(&service).map_or(0, count_vips) / VIPS;
            let mut ips = Vec::new();
            while (judged + work <= most || ips.is_empty())
                && let Some(ip) = scope.take_next()
            {
                work += work_to_judge(&self.cluster, &service, ip);
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
            judged += work;
            if work > longest {
                longest = work;
                self.judged = Some(service);
            }
        }
        self.ips_to_record.add(changed.iter().copied());
        // Many Services may list one IP.
        self.lay_out_suspects(&changed);
        self.end_first_lists();
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

    /// The denials that are proven of a Service at some IPs. Stores where a possible holder keeps
    /// one from being proven.
    fn prove(
        &mut self,
        now: Duration,
        name: &ObjectName,
        ips: &[Addr],
    ) -> BTreeMap<Endpoint, Denial> {
        let mut proven = BTreeMap::new();
        // Until everything is listed, nothing is proven.
        let service = if self.is_listed() {
            self.cluster.service(name)
        } else {
            None
        };
        for ip in ips {
            let mut is_possibly_held = false;
            let mut unseen_node = None;
            let verdicts = match service {
                Some(service) => judge_endpoints(&self.cluster, service, *ip, &|_| String::new()),
                None => Vec::new(),
            };
            for (endpoint, verdict) in verdicts {
                match verdict {
                    Ok(denial) => {
                        proven.insert(endpoint, denial);
                    }
                    Err(NotProven::PossibleHolder(..)) => is_possibly_held = true,
                    Err(NotProven::NodeNotSeen(_, node)) => {
                        is_possibly_held = true;
                        unseen_node = Some(node.as_str().into());
                    }
                    Err(_) => {}
                }
            }
            self.possibly_held.set(now, name, *ip, is_possibly_held);
            self.node_checks.set(name, *ip, unseen_node);
        }
        proven
    }

    /// Applies about `most` objects more of a list. Until its end, what it shows begins nothing.
    fn apply_part(&mut self, most: usize) {
        let Some(list) = self.lists.next_mut() else {
            return;
        };
        self.judged = None;
        let kind = list.request.kind;
        let received = list.received;
        let mut affected = Affected::default();
        let mut is_levelled = false;
        let mut is_applied = false;
        let mut done = 0;
        while done < most && !is_applied {
            if let Some((work, changed)) = self.cluster.apply_next(received, &mut list.objects) {
                affected.add(&changed, &self.cluster);
                is_levelled |= changed.levelled;
                done += work;
            } else {
                is_applied = true;
            }
        }
        if is_levelled {
            affected.add_levelled(&self.cluster, &self.denials);
        }
        if list.request.part.is_some() {
            list.concerned.extend(affected.services.keys().cloned());
        }
        self.follow_up(received, affected);
        if !is_applied {
            return;
        }
        let Some(list) = self.lists.end(kind) else {
            return;
        };
        if list.request.part.is_some() {
            self.end_narrow_list(received, &list.request, list.concerned);
        } else {
            self.end_list(received, list.request);
        }
    }

    /// Has the Services judged whose denials a narrow list, which was applied in whole, may begin,
    /// and those that await it.
    fn end_narrow_list(
        &mut self,
        now: Duration,
        list: &ReceivedList,
        concerned: BTreeSet<ObjectName>,
    ) {
        let mut services = concerned;
        services.append(&mut self.denials.services_awaiting(&self.cluster, list));
        self.orphan_ips.apply_list(&self.cluster, list);
        self.follow_up(now, Affected::only_orphan_ips());
        self.second_lists.end_answered(list);
        self.judge_on(list, services);
    }

    /// Has all endpoints judged that may be denied, on a list that was applied in whole: stopped
    /// denials with which it agrees are carried out.
    fn end_list(&mut self, now: Duration, mut list: ReceivedList) {
        let was_listed = self.is_listed();
        self.lists.set_listed(list.kind);
        let mut affected = Affected::only_orphan_ips();
        // Pods of the tables: their orphan IPs are restored with them, and no others are recorded.
        let mut restored = Vec::new();
        if !was_listed && self.is_listed() {
            // The first lists count as one, whichever came last: as one that may begin denials.
            list.kind = Watched::EndpointSlices;
            restored = self.restore_deaths(now, &mut affected);
        }
        self.follow_up(now, affected);
        if self.is_listed() && list.kind.bears_proofs() {
            self.second_lists.end_answered(&list);
            let services = self.services_to_judge();
            if !was_listed {
                self.unjudged.clone_from(&services);
            }
            self.judge_on(&list, services);
        }
        self.forget_unneeded(now, restored);
    }

    /// Has Services judged on a list that has come.
    fn judge_on(&mut self, list: &ReceivedList, services: BTreeSet<ObjectName>) {
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

    /// Puts the deaths into the index that an earlier process proved, or that hold though
    /// everything was listed anew. Returns the pods of the earlier process.
    fn restore_deaths(&mut self, now: Duration, affected: &mut Affected) -> Vec<Uid> {
        let mut restored = Vec::new();
        if let Some(tables) = self.restored.take() {
            restored = self.restore_proofs(now, &tables);
            // Numbers of Services without denials are released.
            affected.mark_vips(self.layout.numbers.iter().map(|(service, _)| service));
        }
        for (uid, death) in self.revivals.take_deaths() {
            self.cluster.put_death_back(now, death);
            affected.pods.insert(uid);
        }
        let dead = restored.iter().chain(&affected.pods).copied();
        for service in self.cluster.index_restored(dead.collect()) {
            affected.mark_service(&service);
        }
        restored
    }

    /// Puts what the tables of an earlier process prove into the index. Returns the pods that they
    /// name.
    fn restore_proofs(&mut self, now: Duration, tables: &Tables) -> Vec<Uid> {
        let proofs = RestoredProofs::read(tables, &self.cluster, &self.known_names);
        for (number, service) in &proofs.numbers {
            self.layout.numbers.keep(*number, service);
        }
        self.denials.restored.extend(proofs.carried_out);
        for denial in proofs.denials {
            self.cluster.restore_denial(now, denial);
        }
        for (ip, orphan_ip, pod) in proofs.orphan_ips {
            if let Some(seen_at) = orphan_ip.lifted {
                self.orphan_ips.apply(Presence::Spoke(ip, seen_at));
            }
            if self.cluster.restore_dead(now, pod, ip) {
                self.orphan_ips.restore(ip, orphan_ip, now);
            }
        }
        proofs.pods
    }

    /// Prepares pods that a fact shows: drops what no rule reads, and starts over if one of them
    /// is shown alive and was known to be dead.
    fn read_pods(&mut self, now: Duration, pods: &mut [Pod]) {
        for pod in pods.iter_mut() {
            self.cluster.drop_unread(pod);
        }
        let revived = self.revivals.find(&self.cluster, now, pods);
        for uid in revived.taken_back {
            self.cluster.take_death_back(uid);
        }
        if revived.starts_over {
            self.list_anew(now);
        }
    }

    fn list_anew(&mut self, now: Duration) {
        self.cluster.start_over(now);
        self.orphan_ips.start_over();
        self.denials.start_over();
        self.node_checks = NodeChecks::default();
        self.possibly_held = PossiblyHeld::default();
        self.lists = Lists::default();
        self.restored = None;
        if let Some(inherited) = &mut self.inherited {
            inherited.end_all();
        }
        self.unjudged.clear();
        let mut affected = Affected::only_orphan_ips();
        affected.ips.extend(self.owners.entries.keys());
        for (service, endpoint, _) in self.denials.iter() {
            affected.mark_pairs([(service, endpoint.ip)]);
        }
        self.end_and_queue(now, affected);
    }

    /// True if the change may concern an orphan IP: what shows it, or a pod of this node. While
    /// lists are applied, any may.
    fn concerns_orphan_ips(&self, affected: &Affected) -> bool {
        let may_be_own = |uid: &Uid| match self.cluster.pods.get(*uid) {
            Some(record) => self.cluster.is_own(&record.pod),
            None => true,
        };
        affected.orphan_ips
            || self.is_half_applied()
            || affected.pods.iter().any(may_be_own)
            || affected.all_ips().any(|ip| self.orphan_ips.mentions(ip))
    }

    /// Proves orphan IPs again. None is new while a list is applied: a pod further down may hold
    /// the IP.
    fn prove_orphan_ips(&mut self) {
        let mut proven = BTreeMap::new();
        if self.is_listed() {
            let last_owner = |ip| self.owners.last_owner(ip);
            proven = self.orphan_ips.proven(&self.cluster, last_owner);
        }
        if self.is_half_applied() {
            proven.retain(|ip, orphan_ip| self.layout.has_terminated(*ip, orphan_ip));
        }
        let changed = self.layout.set_terminated(proven);
        self.ips_to_record.add(changed);
    }

    /// Drops those of the pods that the API no longer shows and that nothing refers to.
    fn forget_unneeded(&mut self, now: Duration, pods: impl IntoIterator<Item = Uid>) {
        for uid in pods {
            let is_gone = self
                .cluster
                .pods
                .get(uid)
                .is_some_and(|record| !record.present);
            if is_gone && !self.cluster.endpoint_index.knows(uid) && !self.orphan_ips.knows(uid) {
                self.cluster.forget_pod(now, uid);
            }
        }
    }

    /// The IPs that are counted as draining from now on, or no longer.
    fn changed_draining(&self, affected: &Affected) -> BTreeSet<Addr> {
        let mut changed = BTreeSet::new();
        let records = affected
            .pods
            .iter()
            .filter_map(|uid| self.cluster.pods.get(*uid));
        let shown = records.flat_map(|record| &record.pod.ips);
        for ip in affected.ips.iter().chain(shown) {
            if self.layout.counts_as_draining(*ip) != self.cluster.is_draining(*ip) {
                changed.insert(*ip);
            }
        }
        changed
    }

    /// The Services that have denials, or may get some.
    fn services_to_judge(&self) -> BTreeSet<ObjectName> {
        let services = self.cluster.stale.services().chain(self.denials.services());
        services.cloned().collect()
    }

    /// Puts the denials of a Service at some IPs into the tables.
    fn lay_out(&mut self, service: &ObjectName, ips: &BTreeSet<Addr>) {
        self.lay_out_service(service, ips);
        self.lay_out_suspects(ips);
    }

    /// The same without what the IPs have in common with those of other Services.
    fn lay_out_service(&mut self, service: &ObjectName, ips: &BTreeSet<Addr>) {
        for ip in ips {
            self.layout.lay_out_endpoints(&self.denials, service, *ip);
        }
        self.layout
            .lay_out_vips(&self.cluster, &self.denials, service, &self.queue);
    }

    fn lay_out_suspects(&mut self, ips: &BTreeSet<Addr>) {
        for ip in ips {
            self.layout
                .lay_out_suspect(&self.cluster, &self.denials, *ip);
        }
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

/// About how many VIPs a Service has, each with a port.
fn count_vips(service: &Service) -> usize {
    service.vips.len() * service.ports.len()
}
