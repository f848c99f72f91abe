//! Consequences of a change of the index: denials, their confirmation, tables, owners.

use super::dirty::Dirty;
use super::opinions::Came;
use super::{Denials, Endpoint, State, Tables, judge, tables};
use crate::facts::{Name, Service};
use epguard_common::{Action, Addr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl State {
    /// Judges again what may have changed; `list` is the list that has just come, if any.
    pub(super) fn settle(&mut self, now: Duration, mut dirty: Dirty, list: Option<&Came>) {
        self.touch(&dirty);
        dirty.pairs.append(&mut dirty.selected);
        if dirty.everything {
            dirty.add_everything(&self.cluster);
            let denied = self
                .denials
                .keys()
                .map(|(service, endpoint)| (service.clone(), endpoint.ip));
            dirty.pairs.extend(denied.collect::<Vec<_>>());
        }
        self.settle_owners(now, &dirty);
        let mut changed = self.settle_draining(&dirty) || dirty.vips;
        for (service, ip) in &dirty.pairs {
            if self.rejudge(service, *ip) {
                self.touched.insert(*ip);
                changed = true;
            }
        }
        let breaker = self.settle_breaker(now, &dirty, list);
        if breaker {
            self.touch_denied();
        }
        changed |= breaker;
        changed |= dirty.pairs.iter().any(|(service, _)| self.redirects(service));
        if changed || dirty.everything {
            self.lay_out(now);
            let redirected = self.redirected_services();
            let denied = self.denials.keys().map(|(service, _)| service);
            let affected: BTreeSet<&Name> = denied.chain(&redirected).collect();
            let idle: Vec<Name> = self
                .slots
                .iter()
                .map(|(_, name)| name)
                .filter(|name| !affected.contains(name))
                .cloned()
                .collect();
            for name in idle {
                self.slots.rest(&name, now);
            }
        }
        self.settle_orphan_ips();
        for uid in dirty.pods {
            let absent = self.cluster.pods.get(uid).is_some_and(|record| !record.present);
            if absent && !self.cluster.endpoint_index.knows(uid) && !self.orphan_ips.knows(uid) {
                self.cluster.pods.forget(uid);
            }
        }
    }

    /// True if a change of any of the Service's endpoints may change where its flows are redirected.
    fn redirects(&self, service: &Name) -> bool {
        let asks = |service: &Service| service.on_denial.action == Action::Redirect;
        let (first, last) = Endpoint::range();
        let denied = (service.clone(), first)..=(service.clone(), last);
        self.cluster.service(service).is_some_and(asks) && self.denials.range(denied).next().is_some()
    }

    /// Puts the denials into tables.
    pub(super) fn lay_out(&mut self, now: Duration) {
        let redirected = self.redirected_services();
        let (denials, breaker, slots) = (&self.denials, &self.breaker, &mut self.slots);
        self.tables = Tables {
            terminated: std::mem::take(&mut self.tables.terminated),
            ..Tables::build(now, &self.cluster, denials, breaker, slots, &self.draining)
        };
        self.tables
            .keep_intent(&self.cluster, &mut self.slots, now, &redirected);
    }

    fn settle_breaker(&mut self, now: Duration, dirty: &Dirty, list: Option<&Came>) -> bool {
        let mut services: BTreeSet<Name> = dirty.pairs.iter().map(|(service, _)| service.clone()).collect();
        if let Some(list) = list {
            let waiting = self.breaker.waiting(&self.cluster, list);
            services.extend(waiting.cloned());
            self.opinions.came(list);
        }
        let (cluster, denials) = (&self.cluster, &self.denials);
        let mut changed = false;
        for service in &services {
            changed |= self.breaker.settle(cluster, now, denials, service, list);
        }
        if self.is_synced() {
            self.breaker.drop_restored();
        }
        changed
    }

    fn rejudge(&mut self, name: &Name, ip: Addr) -> bool {
        let proven: Denials = match self.cluster.service(name).filter(|_| self.is_synced()) {
            Some(service) => judge::judge(&self.cluster, name, service, ip)
                .into_iter()
                .filter_map(|(endpoint, verdict)| Some(((name.clone(), endpoint), verdict.ok()?)))
                .collect(),
            None => Denials::new(),
        };
        let bounds = Endpoint::range_at(ip);
        let range = (name.clone(), bounds.0)..=(name.clone(), bounds.1);
        let before: Vec<(Name, Endpoint)> = self
            .denials
            .range(range.clone())
            .map(|(key, _)| key.clone())
            .collect();
        if before.iter().eq(proven.keys()) && self.denials.range(range).map(|(_, p)| p).eq(proven.values()) {
            return false;
        }
        for key in before {
            self.denials.remove(&key);
        }
        self.denials.extend(proven);
        true
    }

    fn settle_orphan_ips(&mut self) {
        let last_owner = |ip| self.generations.last_owner(ip);
        let terminated = if self.is_synced() {
            self.orphan_ips.proven(&self.cluster, last_owner)
        } else {
            BTreeMap::new()
        };
        let before = std::mem::replace(&mut self.tables.terminated, terminated);
        let now = &self.tables.terminated;
        let differ = |ip: &&Addr| before.get(*ip) != now.get(*ip);
        self.touched
            .extend(before.keys().chain(now.keys()).filter(differ));
    }

    fn settle_draining(&mut self, dirty: &Dirty) -> bool {
        let mut changed = false;
        for uid in &dirty.pods {
            let draining = self.cluster.pods.get(*uid).filter(|record| {
                record.is_live()
                    && record.pod.deleting
                    && !record.pod.host_network
                    && self.cluster.endpoint_index.knows(*uid)
            });
            let before = match draining {
                Some(record) => self.draining.insert(*uid, record.pod.ips.clone()),
                None => self.draining.remove(uid),
            };
            changed |= before.as_ref() != draining.map(|record| &record.pod.ips);
        }
        changed
    }

    fn settle_owners(&mut self, now: Duration, dirty: &Dirty) {
        for ip in &dirty.ips {
            let before = self.owners.get(ip).copied();
            let mut after = tables::owner(&self.cluster, *ip);
            match &mut after {
                Some(owner) => owner.generation = self.generations.owned(*ip, owner.uid),
                None => self.generations.idle(*ip, now),
            }
            if after != before {
                self.reuse.note(now, *ip, before.as_ref(), after.as_ref());
                self.changed_owners.insert(*ip);
                match after {
                    Some(owner) => self.owners.insert(*ip, owner),
                    None => self.owners.remove(ip),
                };
            }
        }
    }
}
