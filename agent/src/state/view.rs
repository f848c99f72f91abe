//! What is known about one IP, for the history: read only, nothing is decided here.

use super::backends::Backends;
use super::dirty::Dirty;
use super::{Life, Record, State};
use crate::facts::{Name, Service, named};
use crate::history::{DenialView, EndpointView, PodView, ServiceView, TargetView, View};
use epguard_common::{Addr, Mode, Uid, UidState};
use std::collections::{BTreeMap, BTreeSet};

impl State {
    /// IPs about which anything may have changed since the last call.
    pub fn take_touched(&mut self) -> BTreeSet<Addr> {
        std::mem::take(&mut self.touched)
    }

    /// Whether nothing is denied, draining or finished at an IP.
    #[must_use]
    pub fn is_quiet(&self, ip: Addr) -> bool {
        let tables = &self.tables;
        let suspect = tables.suspects.contains_key(&ip) || tables.terminated.contains_key(&ip);
        !suspect && self.world.pods.claimants(ip).all(Record::is_live)
    }

    /// Everything known about an IP.
    #[must_use]
    pub fn view(&self, ip: Addr) -> View {
        let world = &self.world;
        let services: Vec<ServiceView> = world
            .listings
            .services_at(ip)
            .map(|name| self.service_view(name, ip))
            .collect();
        let mut pods: BTreeMap<Uid, PodView> = BTreeMap::new();
        let meant = world
            .listings
            .services_at(ip)
            .flat_map(|name| world.listings.at(name, ip));
        let meant = meant.flat_map(|(_, targets)| targets.keys().flatten());
        let meant = meant.filter_map(|uid| world.pods.get(*uid));
        for record in world.pods.claimants(ip).chain(meant) {
            pods.insert(record.pod.uid, self.pod_view(record, ip));
        }
        let mut pods: Vec<PodView> = pods.into_values().collect();
        pods.sort_by(|a, b| (&a.name, &a.uid).cmp(&(&b.name, &b.uid)));
        let spared = if world.is_infrastructure(ip) {
            Some("node-address")
        } else {
            (!world.settings.ranges.cover(ip)).then_some("range")
        };
        let terminated = self.tables.terminated.get(&ip);
        View {
            synced: self.is_synced(),
            spared: spared.map(str::to_owned),
            pods,
            services,
            terminated: terminated.map(|vacant| self.pod_or_uid(vacant.dead)),
        }
    }

    /// Remembers what there is news about. What follows from it is remembered where it is found out.
    pub(super) fn touch(&mut self, dirty: &Dirty) {
        let listed = dirty.pairs.iter().map(|(_, ip)| ip);
        self.touched.extend(dirty.ips.iter().chain(listed));
    }

    /// Something may be held, or held no more.
    pub(super) fn touch_denied(&mut self) {
        self.touched
            .extend(self.denials.keys().map(|(_, socket)| socket.ip));
    }

    fn pod_view(&self, record: &Record, ip: Addr) -> PodView {
        let claim = record.claims.get(&ip).filter(|claim| claim.published);
        PodView {
            name: self.pod_or_uid(record.pod.uid),
            uid: record.pod.uid.to_string(),
            node: record.pod.node.clone(),
            life: life(record.life).to_owned(),
            exempt: self.world.exempt(&record.pod).map(str::to_owned),
            deleting: record.pod.deleting,
            present: record.present,
            shows: record.claims_now(ip),
            order: claim.map(|claim| claim.order),
        }
    }

    fn service_view(&self, name: &Name, ip: Addr) -> ServiceView {
        let world = &self.world;
        let service = world.service(name);
        let backends = service.map(|service| Backends::new(world, name, service, ip));
        let selected = |record: &&Record| {
            let backends = backends.as_ref();
            backends.is_some_and(|backends| backends.contains(&record.pod))
        };
        let names = |records: &mut dyn Iterator<Item = &Record>| {
            let mut names: Vec<String> = records.map(|record| self.pod_or_uid(record.pod.uid)).collect();
            names.sort();
            names
        };
        // Where somebody listed is not proven gone there is nothing for a candidate to stand against, and each pod that
        // starts would be news for every endpoint of its Service.
        let mut targets = world
            .listings
            .at(name, ip)
            .flat_map(|(_, targets)| targets.keys());
        let gone = |uid: Uid| {
            world
                .pods
                .get(uid)
                .is_some_and(|record| record.life != Life::Live)
        };
        let has_vip = service.is_some_and(Service::has_vip);
        let matters = has_vip && targets.all(|target| target.is_some_and(gone));
        let candidates = world.pods.candidates().take_while(|_| matters).filter(selected);
        let endpoints = world.listings.at(name, ip).map(|(socket, targets)| {
            let mut targets: Vec<TargetView> = targets
                .iter()
                .map(|(target, listing)| TargetView {
                    uid: target.map(|uid| uid.to_string()),
                    pod: target.map(|uid| self.pod_or_uid(uid)),
                    listed: listing.is_current(),
                    ready: listing.ready > 0,
                })
                .collect();
            targets.sort_by(|a, b| (&a.pod, &a.uid).cmp(&(&b.pod, &b.uid)));
            let proven = self.denials.get(&(name.clone(), *socket));
            EndpointView {
                port: socket.port,
                protocol: socket.protocol.as_str().to_owned(),
                targets,
                denial: proven.map(|proven| DenialView {
                    reason: proven.reason.as_str().to_owned(),
                    openers_only: proven.state != UidState::Dead,
                    meant: self.pod_or_uid(proven.meant),
                    hit: proven.owner.map(|owner| self.pod_or_uid(owner)),
                    held: self.breaker.holds(name, socket),
                    bound: proven.mode.as_str().to_owned(),
                }),
            }
        });
        ServiceView {
            name: named(name),
            has_vip,
            has_selector: service.is_some_and(|service| service.selector.is_some()),
            off: service.is_some_and(|service| world.bound_of_service(service) == Mode::Off),
            candidate: candidates.map(|record| self.pod_or_uid(record.pod.uid)).min(),
            own: names(
                &mut world
                    .pods
                    .claimants(ip)
                    .filter(|record| record.is_live())
                    .filter(selected),
            ),
            endpoints: endpoints.collect(),
        }
    }

    fn pod_or_uid(&self, uid: Uid) -> String {
        self.pod_name(uid).map_or_else(|| uid.to_string(), named)
    }
}

const fn life(life: Life) -> &'static str {
    match life {
        Life::Live => "live",
        Life::Retired => "retired",
        Life::Dead => "dead",
    }
}
