//! Confirmation and review of denials: which are pending, which lists would confirm them, and which were wrong.

use crate::facts::{Name, Presence, Protocol, Watched};
use crate::state::State;
use crate::state::confirmation::Trip;
use crate::state::dirty::Dirty;
use crate::state::index::endpoints::Endpoint;
use crate::state::review::{Case, Finding};
use epguard_common::{Addr, Event, Reason};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl State {
    /// True if a denial is only reported, until a second list agrees.
    #[must_use]
    pub fn is_pending(&self, service: &Name, endpoint: &Endpoint) -> bool {
        self.breaker.is_pending(service, endpoint)
    }

    /// The collections of which the state waits for a list, whole or narrow.
    #[must_use]
    pub fn wanted_lists(&self) -> BTreeSet<Watched> {
        let mut wanted = self.breaker.wanted_lists();
        if self.is_synced() && self.orphan_ips.doubtful(&self.cluster).next().is_some() {
            wanted.insert(Watched::Pods);
        }
        wanted
    }

    /// Services with pending denials.
    #[must_use]
    pub fn trips(&self, now: Duration) -> BTreeMap<&Name, Trip> {
        self.breaker.trips(&self.cluster, now)
    }

    /// Confirms the pending denials of a Service, or of all, without another list. Returns how many they were.
    pub fn release_breaker(&mut self, service: Option<&Name>) -> usize {
        let released = self.breaker.release(&self.cluster, service);
        self.touch_denied();
        let mut ips: BTreeMap<Name, BTreeSet<Addr>> = BTreeMap::new();
        for (name, endpoint) in self.denials.keys().filter(|(name, _)| service.is_none_or(|one| one == name))
        {
            ips.entry(name.clone()).or_default().insert(endpoint.ip);
        }
        for (name, ips) in ips {
            self.lay_out(&name, &ips);
        }
        released
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
        let endpoint = Protocol::from_number(event.protocol).map(|protocol| Endpoint {
            ip: event.dst,
            port: event.dst_port,
            protocol,
        });
        let held = service.as_ref().zip(endpoint);
        let held = held.is_some_and(|(service, endpoint)| self.breaker.is_pending(service, &endpoint));
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

    /// Denials that were found to be wrong since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.review.take_findings()
    }

    /// How many denials were wrong, by reason.
    #[must_use]
    pub fn wrong_denies(&self) -> &BTreeMap<Reason, u64> {
        self.review.wrong()
    }

    /// Past denials that were dropped to make room before they could be checked against all later evidence.
    #[must_use]
    pub fn evicted_denials(&self) -> u64 {
        self.review.evicted()
    }

    pub(in crate::state) fn apply_presence(&mut self, now: Duration, presence: &Presence) {
        match presence {
            Presence::Held(ips) => self.review.held(now, ips),
            Presence::Announced(ips) => self.review.announced(now, ips),
            Presence::Looked(at) => self.review.looked(*at),
            Presence::Unknown => self.review.blind(),
            // One packet ends a denial. It does not prove the denial wrong: any pod can forge it.
            Presence::Spoke(..) => {}
            Presence::Sighted(ip, at) => self.review.sighted(now, *at, *ip),
        }
    }

    pub(in crate::state) fn review_again(&mut self, dirty: &Dirty) {
        self.review.seen_alive(&self.cluster, |uid| dirty.pods.contains(&uid));
        for (uid, ip, since) in &dirty.published {
            self.review.published(&self.cluster, *uid, *ip, *since);
        }
    }
}
