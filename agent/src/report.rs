//! One log line per denied flow, with the names of the Service, the pod that was meant and the pod that was hit.

use crate::drops::{Dropped, Kind, Tally};
use crate::events::words;
use crate::facts::{Name, Protocol, named};
use crate::maps::Lift;
use crate::state::State;
use epguard_common::{Addr, Event, Outcome, Uid};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

/// Packets of one flow within this time are one line.
const QUIET: Duration = Duration::from_secs(10);

/// Flows remembered; beyond it all are forgotten, and reported again.
const MAX_FLOWS: usize = 65_536;

/// Names outlive the objects they belong to: a packet may come after its pod is gone.
#[derive(Debug, Default)]
pub struct Report {
    pods: BTreeMap<Uid, Name>,
    flows: HashMap<Flow, Duration>,
    conflicts: BTreeMap<Addr, Vec<Uid>>,
    tally: Tally,
}

type Flow = (Addr, u16, Addr, u16, u8, u32);

impl Report {
    /// Logs a denied packet, unless its flow was logged just now.
    pub fn denied(&mut self, now: Duration, state: &State, event: &Event) {
        let flow = (
            event.src,
            event.src_port,
            event.dst,
            event.dst_port,
            event.protocol,
            event.outcome,
        );
        let (reason, outcome) = words(event);
        let service = named_or_unknown(state.service_name(event.slot));
        let (meant, hit) = (self.pod(state, event.dead_uid), self.pod(state, event.owner_uid));
        let endpoint = SocketAddr::new(event.dst.ip(), event.dst_port);
        let protocol = protocol(event.protocol);
        let kind = Kind {
            service: service.clone(),
            endpoint,
            protocol: protocol.to_owned(),
            reason: reason.to_owned(),
            outcome: outcome.to_owned(),
            meant: meant.clone(),
            hit: hit.clone(),
        };
        self.tally.count(now, kind, event.src.ip());
        if self.flows.len() >= MAX_FLOWS {
            self.flows.clear();
        }
        let known = self
            .flows
            .get(&flow)
            .is_some_and(|last| now.saturating_sub(*last) < QUIET);
        if known {
            return;
        }
        self.flows.insert(flow, now);
        tracing::warn!(
            reason,
            outcome,
            service,
            meant,
            hit,
            client = %SocketAddr::new(event.src.ip(), event.src_port),
            %endpoint,
            protocol,
            "{}",
            message(outcome)
        );
    }

    /// Denied packets by what they have in common.
    #[must_use]
    pub fn drops(&self, now: Duration) -> Vec<Dropped> {
        self.tally.all(now)
    }

    /// Rows of [`Report::drops`] that had to make room for others.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.tally.evicted()
    }

    /// Logs that a packet from the IP of a dead pod was seen.
    pub fn lifted(&self, state: &State, lift: &Lift) {
        tracing::warn!(
            ip = %lift.ip,
            dead = self.pod(state, lift.dead),
            "a packet from the IP of a dead pod was seen: somebody holds it, nothing is denied there"
        );
    }

    /// Logs IPs that two live pods claim, once.
    pub fn conflicts<'a>(&mut self, state: &State, changed: impl Iterator<Item = &'a Addr>) {
        for ip in changed {
            let claimants: Vec<Uid> = state
                .live_claimants(*ip)
                .filter(|record| !record.pod.deleting)
                .map(|record| record.pod.uid)
                .collect();
            if claimants.len() < 2 {
                self.conflicts.remove(ip);
            } else if self.conflicts.get(ip) != Some(&claimants) {
                let pods: Vec<String> = claimants.iter().map(|uid| self.pod(state, *uid)).collect();
                tracing::warn!(%ip, pods = pods.join(","), "conflict: live pods claim the same IP; its traffic passes");
                self.conflicts.insert(*ip, claimants);
            }
        }
    }

    /// IPs that two live pods claim now, with their names.
    #[must_use]
    pub fn open_conflicts(&self, state: &State) -> Vec<(Addr, Vec<String>)> {
        let names = |uids: &Vec<Uid>| uids.iter().map(|uid| self.pod(state, *uid)).collect();
        self.conflicts
            .iter()
            .map(|(ip, uids)| (*ip, names(uids)))
            .collect()
    }

    /// Remembers the names that denials refer to.
    pub fn remember(&mut self, state: &State) {
        let mut pods = BTreeMap::new();
        let denied = state
            .denials()
            .flat_map(|(_, _, proven)| std::iter::once(proven.meant).chain(proven.owner));
        let terminated = state.tables().terminated.values().map(|vacant| vacant.dead);
        for uid in denied.chain(terminated) {
            if let Some(name) = state.pod_name(uid).or_else(|| self.pods.get(&uid)) {
                pods.insert(uid, name.clone());
            }
        }
        self.pods = pods;
    }

    /// The names that denials refer to.
    pub fn pods(&self) -> impl Iterator<Item = (Uid, String)> {
        self.pods.iter().map(|(uid, name)| (*uid, named(name)))
    }

    /// What a pod is called, also once it is gone while a denial refers to it.
    #[must_use]
    pub fn pod_name<'a>(&'a self, state: &'a State, uid: Uid) -> Option<&'a Name> {
        state.pod_name(uid).or_else(|| self.pods.get(&uid))
    }

    /// The same for people, also where there is no name.
    #[must_use]
    pub fn pod(&self, state: &State, uid: Uid) -> String {
        if uid == Uid::NONE {
            return "nobody".to_owned();
        }
        self.pod_name(state, uid).map_or_else(|| uid.to_string(), named)
    }
}

/// Whatever is done about a denial, it is one; only what is observed goes where it would have gone anyway.
fn message(outcome: &str) -> &'static str {
    if outcome == Outcome::Observed.as_str() {
        "would deny"
    } else {
        "denied"
    }
}

fn named_or_unknown(name: Option<&Name>) -> String {
    name.map_or_else(|| "unknown".to_owned(), named)
}

fn protocol(number: u8) -> &'static str {
    Protocol::from_number(number).map_or("other", Protocol::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_observed_would_be_denied() {
        assert_eq!(message(Outcome::Observed.as_str()), "would deny");
        for stopped in Outcome::STOPPED {
            assert_eq!(message(stopped.as_str()), "denied", "{stopped:?}");
        }
    }
}
