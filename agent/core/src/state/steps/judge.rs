//! The Services that wait, judged: denials, their confirmation, and their entries in the tables.

use super::lists::Task;
use crate::facts::Name;
use crate::state::State;
use crate::state::confirmation::opinions::ReceivedList;
use crate::state::index::endpoints::Endpoint;
use crate::state::proof::{Denials, denials_of, judge};
use crate::state::queue::{Queue, Scope};
use crate::state::tables::entry::Given;
use crate::state::tables::layout::Layout;
use epguard_common::Addr;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

/// Endpoints that are judged at once: two milliseconds' worth.
pub(in crate::state) const AT_ONCE: usize = 128;

impl State {
    /// Judges about `most` endpoints, of those Services first that wait longest.
    pub(in crate::state) fn judge_queue(&mut self, now: Duration, most: usize) {
        let mut judged = 0;
        let mut changed = BTreeSet::new();
        while judged < most
            && let Some((service, scope)) = self.queue.pop()
        {
            let after = scope.after;
            let mut rest = self.ips_to_judge(&service, scope);
            judged += 1;
            let first = after.map_or(Bound::Unbounded, Bound::Excluded);
            let turn = rest.range((first, Bound::Unbounded));
            let turn = turn.chain(after.iter().flat_map(|after| rest.range(..=*after)));
            let ips = turn.copied().take_while(|ip| {
                let is_over = judged > most;
                judged += 1 + self.cluster.endpoint_index.at(&service, *ip).count();
                !is_over
            });
            let ips: Vec<Addr> = ips.collect();
            for ip in &ips {
                rest.remove(ip);
            }
            if !rest.is_empty() {
                let (ips, after) = (rest, ips.last().copied());
                let all = false;
                self.queue.push(service.clone(), Scope { ips, all, after });
            }
            changed.append(&mut self.judge_service(now, &service, &ips));
        }
        self.touched.extend(changed.iter().map(|ip| (*ip, ())));
        // Many Services may list one IP.
        self.lay_out_suspects(&changed);
    }

    fn ips_to_judge(&self, service: &Name, scope: Scope) -> BTreeSet<Addr> {
        let mut ips = scope.ips;
        if scope.all {
            let denied = denials_of(&self.denials, service).map(|((_, endpoint), _)| endpoint.ip);
            // Each in the order of IPs.
            let mut known: Vec<Addr> = denied.chain(self.breaker.ips(service)).collect();
            known.dedup();
            ips.extend(known.into_iter().chain(self.cluster.stale.ips(service)));
        }
        ips
    }

    /// Judges the endpoints of a Service at some IPs. Returns the IPs where a denial changed.
    fn judge_service(&mut self, now: Duration, service: &Name, ips: &[Addr]) -> BTreeSet<Addr> {
        let list = match &self.task {
            Some(Task::Judge(list, services)) if services.contains(service) => Some(list.clone()),
            _ => None,
        };
        let changed = ips.iter().filter(|ip| self.rejudge(service, **ip));
        let mut changed: BTreeSet<Addr> = changed.copied().collect();
        let (cluster, denials) = (&self.cluster, &self.denials);
        let pending = self.breaker.update_service(cluster, now, denials, (service, ips), list.as_ref());
        changed.extend(pending);
        self.lay_out_service(service, &changed);
        if self.queue.judged(service)
            && let Some(Task::Judge(_, services)) = &mut self.task
        {
            services.remove(service);
            self.end_list();
        }
        changed
    }

    /// Has Services judged on a list that has come.
    pub(in crate::state) fn judge_on(&mut self, list: ReceivedList, services: BTreeSet<Name>) {
        for service in &services {
            let scope = Scope { all: true, ..Scope::default() };
            self.queue.push(service.clone(), scope);
        }
        self.task = Some(Task::Judge(list, services));
        self.end_list();
    }

    /// Ends the list that has come once all Services are judged on it.
    fn end_list(&mut self) {
        if matches!(&self.task, Some(Task::Judge(_, services)) if services.is_empty()) {
            self.task = None;
            self.breaker.drop_restored();
            self.synced.note_judged();
            self.prove_orphan_ips();
        }
    }

    /// Puts the denials of a Service at some IPs into the tables.
    pub(in crate::state) fn lay_out(&mut self, service: &Name, ips: &BTreeSet<Addr>) {
        self.lay_out_service(service, ips);
        self.lay_out_suspects(ips);
    }

    /// The same without what the IPs have in common with those of other Services.
    pub(in crate::state) fn lay_out_service(&mut self, service: &Name, ips: &BTreeSet<Addr>) {
        let (layout, given, queue) = self.layout();
        for ip in ips {
            layout.endpoints(&given, service, *ip);
        }
        layout.service(&given, service, queue);
    }

    pub(in crate::state) fn lay_out_suspects(&mut self, ips: &BTreeSet<Addr>) {
        let (layout, given, _) = self.layout();
        for ip in ips {
            layout.suspect(&given, *ip);
        }
    }

    fn layout(&mut self) -> (&mut Layout, Given<'_>, &Queue) {
        let given = Given {
            cluster: &self.cluster,
            denials: &self.denials,
            breaker: &self.breaker,
            draining: &self.draining,
        };
        (&mut self.layout, given, &self.queue)
    }

    /// Judges the endpoints of a Service at an IP. True if a denial changed.
    fn rejudge(&mut self, name: &Name, ip: Addr) -> bool {
        let (first, last) = Endpoint::range_at(ip);
        let range = (name.clone(), first)..=(name.clone(), last);
        let before: Denials =
            self.denials.range(range).map(|(key, proven)| (key.clone(), proven.clone())).collect();
        let proven: Denials = match self.cluster.service(name).filter(|_| self.is_listed()) {
            Some(service) => judge::judge(&self.cluster, name, service, ip)
                .into_iter()
                .filter_map(|(endpoint, verdict)| Some(((name.clone(), endpoint), verdict.ok()?)))
                .collect(),
            None => Denials::new(),
        };
        if before == proven {
            return false;
        }
        for key in before.keys() {
            self.denials.remove(key);
        }
        self.denials.extend(proven);
        true
    }
}
