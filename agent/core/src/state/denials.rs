//! All denials, carried out or stopped by the breaker.

use super::breaker::{
    Breaker, EvidenceLists, ReceivedList, Ruling, Stopped, StoppedService, TwoSources, Wanted,
};
use super::index::ClusterIndex;
use super::index::endpoints::Endpoint;
use super::proof::stands_while_pods_start;
use crate::counts::{Counts, uncount};
use crate::facts::{BreakerRelease, ObjectName, Text};
use crate::sorted_map::SortedMap;
use epguard_common::{Addr, Denial, Uid, UidState};
use itertools::Itertools as _;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many stopped denials of a namespace have their lists requested at a time.
const TURN: usize = 64;

/// All denials.
#[derive(Debug, Clone, Default)]
pub struct Denials {
    of_services: BTreeMap<ObjectName, ServiceDenials>,
    /// Denials that an earlier process carried out: until the first lists are judged, a list that
    /// shows them again is no new proof.
    pub restored: BTreeSet<(Addr, Uid)>,
}

/// The denials of one Service.
#[derive(Debug, Clone, Default)]
struct ServiceDenials {
    denied: SortedMap<Endpoint, Denied>,
    /// How many denials at each IP fill the share of the Service.
    share: Counts<Addr>,
    /// IPs with denials that a pod of the Service ends when it starts.
    ended_by_starts: BTreeSet<Addr>,
}

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// What was proven last.
    pub proven: Denial,
    /// Whether it is proven now. A stopped denial stays known until a list disagrees: its proof may
    /// come back with an event that shows nothing about the list.
    pub is_proven: bool,
    /// Why the breaker stops it. `None`: it is carried out.
    pub stopped: Option<Box<Stopped>>,
    /// Whether it was proven by what the API showed before it was listed anew: no later proof goes
    /// on with it.
    is_void: bool,
    /// Whether it fills the share of the Service: it is carried out, and no second source agrees.
    fills_share: bool,
}

impl Denied {
    /// A denial that has just been proven.
    fn new(proven: &Denial, stopped: Option<Stopped>) -> Self {
        Self {
            proven: *proven,
            is_proven: true,
            stopped: stopped.map(Box::new),
            is_void: false,
            fills_share: false,
        }
    }

    /// True if the proof denies packets that were not denied before.
    fn is_outgrown_by(&self, proven: &Denial) -> bool {
        let was_weaker =
            self.proven.uid_state == UidState::Retired && proven.uid_state == UidState::Dead;
        self.proven.dead_uid != proven.dead_uid || was_weaker
    }

    /// Applies what is proven now, and the lists that have come. False if the denial ends.
    fn update(&mut self, breaker: &mut Breaker<'_>, ip: Addr, proven: Option<&Denial>) -> bool {
        if self.is_void {
            return false;
        }
        self.is_proven = proven.is_some();
        if let Some(proven) = proven
            && !self.is_outgrown_by(proven)
        {
            self.proven = *proven;
        }
        let Some(stopped) = &mut self.stopped else {
            return self.is_proven;
        };
        match breaker.decide(stopped, ip, self.proven.dead_uid, proven) {
            Ruling::Stop => true,
            Ruling::CarryOut => {
                self.stopped = None;
                true
            }
            Ruling::Drop => false,
        }
    }
}

impl Denials {
    /// Everything is listed anew: what is proven from now on is new. Until then each denial stays
    /// as the tables have it.
    pub fn start_over(&mut self) {
        self.restored.clear();
        for of_service in self.of_services.values_mut() {
            of_service.share.clear();
            for denied in of_service.denied.values_mut() {
                denied.is_void = true;
                denied.fills_share = false;
            }
        }
    }

    /// Forgets all proofs, but not what is stopped.
    pub fn forget_proofs(&mut self) {
        for of_service in self.of_services.values_mut() {
            for denied in of_service.denied.values_mut() {
                denied.is_proven = false;
            }
        }
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
        let mut of_service = self.of_services.remove(service).unwrap_or_default();
        let before: Vec<_> = ips.iter().map(|ip| of_service.shown_at(*ip)).collect();
        let mut breaker = Breaker::new(cluster, now, service, lists);
        for ip in ips {
            of_service.update_at(&mut breaker, *ip, proven);
        }
        for (endpoint, proven) in proven {
            if of_service.has(endpoint, proven) {
                continue;
            }
            let was_carried_out = self.restored.contains(&(endpoint.ip, proven.dead_uid));
            of_service.add(&mut breaker, endpoint, proven, was_carried_out);
        }
        let mut changed = BTreeSet::new();
        for (ip, before) in ips.iter().zip(before) {
            of_service.mark_ended_by_starts(cluster, service, *ip);
            if of_service.shown_at(*ip) != before {
                changed.insert(*ip);
            }
        }
        if !of_service.denied.is_empty() {
            self.of_services.insert(service.clone(), of_service);
        }
        changed
    }

    /// All that are proven.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectName, &Endpoint, &Denied)> {
        self.of_services.iter().flat_map(|(name, of_service)| {
            of_service
                .proven()
                .map(move |(endpoint, denied)| (name, endpoint, denied))
        })
    }

    /// Those of a Service that are proven.
    pub fn of_service(&self, service: &ObjectName) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        let of_service = self.of_services.get(service);
        of_service.into_iter().flat_map(ServiceDenials::proven)
    }

    /// True if a denial of the Service is proven.
    pub fn has_proven(&self, service: &ObjectName) -> bool {
        self.of_service(service).next().is_some()
    }

    /// Those of a Service at an IP that are proven.
    pub fn of_service_at(
        &self,
        service: &ObjectName,
        ip: Addr,
    ) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        let of_service = self.of_services.get(service);
        of_service
            .into_iter()
            .flat_map(move |of_service| of_service.proven_at(ip))
    }

    /// The one of a Service at an endpoint, if it is proven.
    pub fn get(&self, service: &ObjectName, endpoint: &Endpoint) -> Option<&Denied> {
        let denied = self.of_services.get(service)?.denied.get(endpoint)?;
        denied.is_proven.then_some(denied)
    }

    /// Services with denials, proven or stopped.
    pub fn services(&self) -> impl Iterator<Item = &ObjectName> {
        self.of_services.keys()
    }

    /// The IPs of a Service with denials, proven or stopped, ascending.
    pub fn ips_of(&self, service: &ObjectName) -> impl Iterator<Item = Addr> {
        let of_service = self.of_services.get(service);
        let endpoints = of_service
            .into_iter()
            .flat_map(|of_service| of_service.denied.keys());
        endpoints.map(|endpoint| endpoint.ip)
    }

    /// Those of them with denials that a pod of the Service ends when it starts: all but those
    /// where a stranger shows the IP.
    pub fn ips_ended_by_starts(&self, service: &ObjectName) -> impl Iterator<Item = Addr> {
        let of_service = self.of_services.get(service);
        of_service
            .into_iter()
            .flat_map(|of_service| &of_service.ended_by_starts)
            .copied()
    }

    /// Services with stopped denials that may await the list, or whose pods it shows alive. It has
    /// been applied.
    pub fn services_awaiting(
        &self,
        cluster: &ClusterIndex,
        list: &ReceivedList,
    ) -> BTreeSet<ObjectName> {
        let mut awaiting = BTreeSet::new();
        for (service, of_service) in &self.of_services {
            if of_service.may_await(&EvidenceLists::new(cluster, service), list) {
                awaiting.insert(service.clone());
            }
        }
        awaiting
    }

    /// The lists that stopped denials await, narrow where possible, each with the namespace of a
    /// Service that it is for. Those of a namespace's first `TURN` stopped denials, since it may
    /// request but a few lists.
    pub fn awaited_lists(&self, cluster: &ClusterIndex) -> Wanted {
        let mut awaited = Wanted::new();
        let mut namespace: Option<&Text> = None;
        let mut left = 0;
        for (service, of_service) in &self.of_services {
            if namespace != Some(&service.namespace) {
                namespace = Some(&service.namespace);
                left = TURN;
            }
            let evidence = EvidenceLists::new(cluster, service);
            for (ip, stopped) in of_service.stopped().take(left) {
                left -= 1;
                for list in evidence.lists_at(ip, stopped.awaits) {
                    if !stopped.agreed.contains(&list) {
                        let namespaces = awaited.entry(list).or_default();
                        namespaces.insert(service.namespace.clone());
                    }
                }
            }
        }
        awaited
    }

    /// Releases stopped denials. Returns those that are carried out from now on.
    pub fn release(
        &mut self,
        cluster: &ClusterIndex,
        release: &BreakerRelease,
    ) -> BTreeMap<ObjectName, Vec<Endpoint>> {
        let mut released = BTreeMap::new();
        for (name, of_service) in &mut self.of_services {
            if !release.names(name) {
                continue;
            }
            let endpoints = of_service.release(cluster, name, release.until);
            if !endpoints.is_empty() {
                released.insert(name.clone(), endpoints);
            }
        }
        released
    }

    /// Services with stopped denials.
    pub fn stopped_services(
        &self,
        cluster: &ClusterIndex,
        now: Duration,
    ) -> BTreeMap<&ObjectName, StoppedService> {
        let mut services = BTreeMap::new();
        for (name, of_service) in &self.of_services {
            let since = of_service.stopped().map(|(_, stopped)| stopped.since).min();
            let reason = of_service
                .stopped()
                .map(|(_, stopped)| stopped.reason)
                .max();
            let resource_version = of_service
                .stopped()
                .map(|(_, stopped)| stopped.resource_version)
                .max();
            let (Some(since), Some(reason), Some(resource_version)) =
                (since, reason, resource_version)
            else {
                continue;
            };
            let service = StoppedService {
                stopped: of_service.stopped().map(|(ip, _)| ip).dedup().count(),
                denied: of_service
                    .proven()
                    .map(|(endpoint, _)| endpoint.ip)
                    .dedup()
                    .count(),
                ready_recently: cluster.endpoint_index.ready_after(now, name, None).count(),
                since: since.into(),
                resource_version,
                reason,
            };
            services.insert(name, service);
        }
        services
    }
}

impl ServiceDenials {
    fn proven(&self) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        self.denied.iter().filter(|(_, denied)| denied.is_proven)
    }

    fn proven_at(&self, ip: Addr) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        self.all_at(ip).filter(|(_, denied)| denied.is_proven)
    }

    /// Those at an IP, with those that are not proven now.
    fn all_at(&self, ip: Addr) -> impl Iterator<Item = (&Endpoint, &Denied)> {
        let (first, _) = Endpoint::range_at(ip);
        let further = self.denied.from(first);
        further.take_while(move |(endpoint, _)| endpoint.ip == ip)
    }

    /// Those that are proven and stopped, with their IPs.
    fn stopped(&self) -> impl Iterator<Item = (Addr, &Stopped)> {
        let valid = self.proven().filter(|(_, denied)| !denied.is_void);
        valid.filter_map(|(endpoint, denied)| Some((endpoint.ip, denied.stopped.as_deref()?)))
    }

    /// True if the endpoint is denied, and the proof denies no more than that.
    fn has(&self, endpoint: &Endpoint, proven: &Denial) -> bool {
        self.denied
            .get(endpoint)
            .is_some_and(|denied| !denied.is_outgrown_by(proven))
    }

    /// Updates the denials at an IP to what is proven now, and drops those that end.
    fn update_at(
        &mut self,
        breaker: &mut Breaker<'_>,
        ip: Addr,
        proven: &BTreeMap<Endpoint, Denial>,
    ) {
        let endpoints: Vec<Endpoint> = self.all_at(ip).map(|(endpoint, _)| *endpoint).collect();
        for endpoint in endpoints {
            let Some(denied) = self.denied.get_mut(&endpoint) else {
                continue;
            };
            let proof = proven.get(&endpoint);
            let stays = denied.update(breaker, ip, proof);
            let is_carried_out = stays && denied.stopped.is_none();
            let fills_share = is_carried_out
                && !proof.is_some_and(|proof| breaker.two_sources_agree(ip, proof.dead_uid));
            self.fill_share(&endpoint, fills_share);
            if !stays {
                self.denied.remove(&endpoint);
            }
        }
    }

    /// Adds a denial that has just been proven.
    fn add(
        &mut self,
        breaker: &mut Breaker<'_>,
        endpoint: &Endpoint,
        proven: &Denial,
        was_carried_out: bool,
    ) {
        let stopped = breaker.stop_if_needed(endpoint.ip, proven, was_carried_out, &self.share);
        let fills_share =
            stopped.is_none() && !breaker.two_sources_agree(endpoint.ip, proven.dead_uid);
        self.fill_share(endpoint, false);
        self.denied.insert(*endpoint, Denied::new(proven, stopped));
        self.fill_share(endpoint, fills_share);
    }

    /// Carries out what was stopped when the agent had seen no newer resourceVersion than `until`.
    /// Returns its endpoints.
    fn release(
        &mut self,
        cluster: &ClusterIndex,
        service: &ObjectName,
        until: u64,
    ) -> Vec<Endpoint> {
        let mut released = Vec::new();
        for (endpoint, denied) in self.proven() {
            let stopped = denied.stopped.as_ref();
            if stopped.is_some_and(|stopped| stopped.resource_version <= until) {
                released.push((*endpoint, denied.proven.dead_uid));
            }
        }
        let mut two_sources = TwoSources::new(cluster, service);
        for (endpoint, meant) in &released {
            self.fill_share(endpoint, !two_sources.agree(endpoint.ip, *meant));
            if let Some(denied) = self.denied.get_mut(endpoint) {
                denied.stopped = None;
            }
        }
        released.into_iter().map(|(endpoint, _)| endpoint).collect()
    }

    /// True if a stopped denial may await the list, or the list shows its pod alive.
    fn may_await(&self, evidence: &EvidenceLists<'_>, list: &ReceivedList) -> bool {
        // Many endpoints may be at one IP.
        let mut previous: Option<(Addr, Uid)> = None;
        for (endpoint, denied) in self.denied.iter() {
            let Some(stopped) = &denied.stopped else {
                continue;
            };
            let meant = (endpoint.ip, denied.proven.dead_uid);
            if !stopped.awaits(list.kind) || previous == Some(meant) {
                continue;
            }
            previous = Some(meant);
            if evidence.may_include(endpoint.ip, list)
                || evidence.shows_alive(list, denied.proven.dead_uid)
            {
                return true;
            }
        }
        false
    }

    /// Sets whether a denial fills the share.
    fn fill_share(&mut self, endpoint: &Endpoint, fills_share: bool) {
        let Some(denied) = self.denied.get_mut(endpoint) else {
            return;
        };
        if denied.fills_share == fills_share {
            return;
        }
        denied.fills_share = fills_share;
        if fills_share {
            *self.share.entry(endpoint.ip).or_default() += 1;
        } else {
            uncount(&mut self.share, &endpoint.ip, 1);
        }
    }

    /// Marks an IP if a pod of the Service ends one of the denials there when it starts.
    fn mark_ended_by_starts(&mut self, cluster: &ClusterIndex, service: &ObjectName, ip: Addr) {
        let all_stand = self
            .proven_at(ip)
            .all(|(_, denied)| stands_while_pods_start(cluster, service, ip, &denied.proven));
        if all_stand {
            self.ended_by_starts.remove(&ip);
        } else {
            self.ended_by_starts.insert(ip);
        }
    }

    /// What the tables show of the denials at an IP.
    fn shown_at(&self, ip: Addr) -> Vec<(Endpoint, Denial, bool)> {
        self.proven_at(ip)
            .map(|(endpoint, denied)| (*endpoint, denied.proven, denied.stopped.is_some()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Protocol;
    use crate::plan::tests::DENIAL;

    #[test]
    fn an_ip_counts_once_for_all_its_ports_and_until_the_last_of_them_goes() {
        let all = [(1, 80), (1, 443), (2, 80)].map(|(last, port)| Endpoint {
            ip: Addr::v4([10, 0, 0, last]),
            port,
            protocol: Protocol::Tcp,
        });
        let mut of_service = ServiceDenials::default();
        for endpoint in &all {
            let denied = Denied::new(&DENIAL, None);
            of_service.denied.insert(*endpoint, denied);
            of_service.fill_share(endpoint, true);
        }
        let steps = [
            (0, true, 2),
            (0, false, 2),
            (0, false, 2),
            (1, false, 1),
            (0, true, 2),
            (2, false, 1),
        ];
        for (which, fills_share, ips) in steps {
            of_service.fill_share(&all[which], fills_share);
            assert_eq!(of_service.share.len(), ips, "{which} {fills_share}");
        }
    }
}
