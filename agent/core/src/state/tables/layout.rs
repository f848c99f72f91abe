//! The denials laid out in tables: all of them anew, or only those of a few endpoints while the tables have room.

use super::{Changes, Tables};
use super::{denial, key};
use crate::facts::{Name, Service};
use crate::state::State;
use crate::state::dirty::Dirty;
use crate::state::index::endpoints::Endpoint;
use epguard_common::{Action, Addr, Backends, DenialKey, Suspect, Vip, capacity};
use std::collections::BTreeSet;

impl State {
    /// The keys of [`State::tables`] that may have changed since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Puts all denials into tables.
    pub(in crate::state) fn lay_out(&mut self) {
        let (denials, breaker, numbers) = (&self.denials, &self.breaker, &mut self.numbers);
        let mut tables = Tables::build(&self.cluster, denials, breaker, numbers, &self.draining);
        tables.terminated = std::mem::take(&mut self.tables.terminated);
        if self.is_half_applied() {
            self.withhold_new(&mut tables);
        }
        self.changes.add(&self.tables, &tables);
        self.tables = tables;
        let denied: BTreeSet<&Name> = self.denials.keys().map(|(service, _)| service).collect();
        let services = self.numbers.iter().map(|(service, _)| service);
        let idle = services.filter(|service| !denied.contains(service));
        for service in idle.cloned().collect::<Vec<Name>>() {
            self.numbers.release(&service);
        }
    }

    /// Removes what the tables did not have, until the list is applied: a Service further down may claim the VIP, too, a pod
    /// the IP of a live endpoint, and a denial that had no room is new.
    fn withhold_new(&mut self, tables: &mut Tables) {
        let known = &self.tables;
        let before = (
            tables.services.len(),
            tables.denied.len(),
            tables.backends.clone(),
        );
        tables
            .services
            .retain(|vip, number| known.services.get(vip) == Some(number));
        tables.denied.retain(|key, _| known.denied.contains_key(key));
        for (key, backends) in &mut tables.backends {
            let known = known.backends.get(key).map(Backends::all).unwrap_or_default();
            let live = backends.all().iter().filter(|live| known.contains(live));
            *backends = Backends::new(backends.sticky != 0, live.copied());
        }
        tables
            .backends
            .retain(|key, backends| backends.count > 0 && known.denied.contains_key(key));
        let after = (tables.services.len(), tables.denied.len(), &tables.backends);
        self.withholds |= (before.0, before.1, &before.2) != after;
    }

    /// True if the change concerns entries of other endpoints than those that were judged again: VIPs, or backends of
    /// redirected flows.
    pub(in crate::state) fn is_laid_out_anew(&self, dirty: &Dirty) -> bool {
        dirty.vips
            || dirty.pairs.iter().any(|(service, _)| self.redirects(service))
            || dirty.zones && self.denials.keys().any(|(service, _)| self.redirects(service))
    }

    /// Puts the denials of some endpoints into the tables.
    pub(in crate::state) fn lay_out_changed(&mut self, pairs: &BTreeSet<(Name, Addr)>) {
        self.touched.extend(pairs.iter().map(|(_, ip)| (*ip, ())));
        let redirects = pairs.iter().any(|(service, _)| self.redirects(service));
        if redirects || !self.lay_out_at(pairs, &BTreeSet::new()) {
            self.lay_out();
        }
    }

    /// Puts the denials of some endpoints into the tables, and counts terminating endpoints at some IPs. False if that is
    /// not enough: where room is short, the denials of one Service decide on the room of others.
    pub(in crate::state) fn lay_out_at(
        &mut self,
        pairs: &BTreeSet<(Name, Addr)>,
        drained: &BTreeSet<Addr>,
    ) -> bool {
        if pairs.is_empty() && drained.is_empty() {
            return true;
        }
        if !self.tables.refused.is_empty() {
            return false;
        }
        for (service, ip) in pairs {
            if !self.lay_out_endpoints(service, *ip) {
                return false;
            }
        }
        let services: BTreeSet<&Name> = pairs.iter().map(|(service, _)| service).collect();
        for service in services {
            self.lay_out_vips(service);
        }
        let ips: BTreeSet<Addr> = pairs
            .iter()
            .map(|(_, ip)| *ip)
            .chain(drained.iter().copied())
            .collect();
        for ip in ips {
            self.lay_out_suspect(ip);
        }
        let Tables {
            denied,
            suspects,
            services,
            ..
        } = &self.tables;
        has_room(denied.len(), capacity::DENIED)
            && has_room(suspects.len(), capacity::SUSPECTS)
            && has_room(services.len(), capacity::SERVICES)
    }

    fn lay_out_endpoints(&mut self, name: &Name, ip: Addr) -> bool {
        let half_applied = self.is_half_applied();
        let mut before = BTreeSet::new();
        if let Some(number) = self.numbers.get(name) {
            let (first, last) = Endpoint::range_at(ip);
            let range = key(&first, number)..=DenialKey {
                protocol: u8::MAX,
                ..key(&last, number)
            };
            before.extend(self.tables.denied.range(range).map(|(key, _)| *key));
            for key in &before {
                self.tables.denied.remove(key);
                self.tables.backends.remove(key);
                self.changes.denied.insert(*key);
            }
        }
        let (first, last) = Endpoint::range_at(ip);
        let denials = self.denials.range((name.clone(), first)..=(name.clone(), last));
        for ((_, endpoint), proven) in denials {
            let (Some(service), Some(number)) = (self.cluster.service(name), self.numbers.take(name)) else {
                return false;
            };
            let held = self.breaker.is_pending(name, endpoint);
            let key = key(endpoint, number);
            if half_applied && !before.contains(&key) {
                self.withholds = true;
                continue;
            }
            let denial = denial(proven, held, service.on_denial.action);
            self.tables.denied.insert(key, denial);
            self.changes.denied.insert(key);
        }
        true
    }

    /// Adds the VIPs of a Service that has denials, or removes them.
    fn lay_out_vips(&mut self, name: &Name) {
        let is_denied = self.has_denials(name);
        let number = self.numbers.get(name).filter(|_| is_denied);
        let service = self.cluster.service(name);
        let vips = service.map(|service| self.cluster.unambiguous_vips(service));
        for vip in vips.into_iter().flatten().collect::<Vec<Vip>>() {
            if self.tables.services.get(&vip) == number.as_ref() {
                continue;
            }
            match number {
                Some(_) if self.is_half_applied() => {
                    self.withholds = true;
                    continue;
                }
                Some(number) => self.tables.services.insert(vip, number),
                None => self.tables.services.remove(&vip),
            };
            self.changes.services.insert(vip);
        }
        if !is_denied {
            self.numbers.release(name);
        }
    }

    fn lay_out_suspect(&mut self, ip: Addr) {
        let (first, last) = Endpoint::range_at(ip);
        let services = self.cluster.endpoint_index.services_at(ip);
        let denials =
            services.flat_map(|name| self.denials.range((name.clone(), first)..=(name.clone(), last)));
        let meant = denials
            .max_by_key(|((name, endpoint), _)| (!self.breaker.is_pending(name, endpoint), name, endpoint));
        let mut suspect = Suspect::default();
        if let Some((_, proven)) = meant {
            suspect.flags |= Suspect::DENIED;
            suspect.dead_uid = proven.meant;
        }
        let mut draining = self.draining.values().flatten();
        if draining.any(|own| *own == ip) && !self.cluster.is_infrastructure(ip) {
            suspect.flags |= Suspect::DRAINING;
        }
        self.changes.suspects.insert(ip);
        if suspect.flags == 0 {
            self.tables.suspects.remove(&ip);
        } else {
            self.tables.suspects.insert(ip, suspect);
        }
    }

    /// True if a change of any of the Service's endpoints may change where its flows are redirected.
    fn redirects(&self, service: &Name) -> bool {
        let asks = |service: &Service| service.on_denial.action == Action::Redirect;
        self.cluster.service(service).is_some_and(asks) && self.has_denials(service)
    }

    fn has_denials(&self, service: &Name) -> bool {
        let (first, last) = Endpoint::range();
        let range = (service.clone(), first)..=(service.clone(), last);
        self.denials.range(range).next().is_some()
    }
}

/// True if entries find room in any order, whichever namespaces hold them: half of the table is free.
fn has_room(entries: usize, capacity: usize) -> bool {
    2 * entries <= capacity
}
