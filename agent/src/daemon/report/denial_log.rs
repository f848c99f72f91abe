//! Denied packets: from the kernel's counts and reports to the log, the Events and `epguard drops`.
//!
//! A log line has the counts per kind in ten seconds, and the names of the Service, the pod that
//! was meant and the pod that was hit.

use super::kube_events::{Announcer, Subject};
use super::pod_names::Names;
use super::ring_buffer::Budget;
use super::tally::Tally;
use crate::kernel::maps::{Denied, Lift, Writer};
use crate::shared::drops::{self, Kind, NONE};
use anyhow::Result;
use epguard_common::{Addr, DenialKey, Event, Outcome, Reason, Uid};
use epguard_core::facts::Protocol;
use epguard_core::state::State;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Time between two readings of the counts of all denials. Denials with reported packets are read
/// at each tick.
const ALL: Duration = Duration::from_secs(10);

/// Pods that the line about a conflict names. Whoever may write `pods/status` can make any number
/// show an IP.
const NAMED: usize = 8;

/// What the agent reports of denied packets, and what it needs for that.
pub struct Report {
    /// Names of pods.
    pub names: Names,
    /// Counts for the log and `epguard drops`.
    pub tally: Tally,
    /// Limits the reports that are taken in.
    pub budget: Budget,
    /// Writes Events.
    pub announcer: Announcer,
    conflicts: BTreeMap<Addr, Vec<Uid>>,
    /// Denials with reported packets since their counts were read.
    active: BTreeSet<DenialKey>,
    /// When the counts of all denials were read.
    all_read: Duration,
}

impl Report {
    /// Nothing is counted yet.
    pub fn new(names: Names, announcer: Announcer) -> Self {
        Self {
            names,
            tally: Tally::default(),
            budget: Budget::default(),
            announcer,
            conflicts: BTreeMap::new(),
            active: BTreeSet::new(),
            all_read: Duration::ZERO,
        }
    }

    /// Takes in the report of a denied packet: its client, and that its denial's counts have risen.
    pub fn reported(&mut self, now: Duration, state: &State, event: &Event) {
        let target = target(event);
        self.active.insert(target);
        if state.is_listed()
            && let Some(reason) = Reason::from_number(event.reason)
            && let Some(outcome) = Outcome::from_number(event.outcome)
        {
            let denied = Denied {
                target,
                reason,
                dead: event.dead_uid,
                owner: event.owner_uid,
            };
            let kind = kind(&self.names, state, &denied, outcome);
            self.tally.client(now, kind, event.src.ip());
        }
    }

    /// Counts and logs what was denied since the last call, and queues the Events that are due.
    pub fn tick(&mut self, now: Duration, state: &State, writer: &mut Writer) -> Result<()> {
        if now.saturating_sub(self.all_read) >= ALL {
            self.count_all(now, state, writer)?;
        } else {
            let active = std::mem::take(&mut self.active);
            self.count(state, writer, |target| active.contains(target))?;
        }
        self.log(now);
        self.announcer.tick(now);
        Ok(())
    }

    /// Counts the packets of all denials.
    pub fn count_all(&mut self, now: Duration, state: &State, writer: &mut Writer) -> Result<()> {
        self.all_read = now;
        self.active.clear();
        self.count(state, writer, |_| true)
    }

    fn count(
        &mut self,
        state: &State,
        writer: &mut Writer,
        wanted: impl Fn(&DenialKey) -> bool,
    ) -> Result<()> {
        // An earlier agent's denials have no names before that. Their counts stay in the kernel.
        if !state.is_listed() {
            return Ok(());
        }
        for reading in writer.take_readings(wanted)? {
            let last = Duration::from_nanos(reading.last_ns);
            for (outcome, count) in reading.added {
                let kind = kind(&self.names, state, &reading.denied, outcome);
                if self.announcer.reports_denials() {
                    for subject in about(&self.names, state, &reading.denied) {
                        self.announcer.denied(last, subject, &kind, count.packets);
                    }
                }
                self.tally.count(last, kind, count);
            }
        }
        Ok(())
    }

    /// Logs what was counted since the last line about the same kind.
    fn log(&mut self, now: Duration) {
        for (kind, count, clients) in self.tally.due(now) {
            tracing::warn!(
                reason = &*kind.reason,
                outcome = &*kind.outcome,
                service = kind.service,
                meant = kind.meant,
                hit = kind.hit,
                client = drops::clients(&clients),
                endpoint = kind.endpoint(),
                protocol = kind.protocol,
                packets = count.packets,
                syns = count.openings,
                "{}",
                message(&kind.outcome)
            );
        }
    }

    /// Logs that a packet from the IP of a dead pod was seen.
    pub fn lifted(&self, state: &State, lift: &Lift) {
        tracing::warn!(
            ip = %lift.ip,
            dead = self.names.text(state, lift.dead),
            "a packet from the IP of a dead pod was seen: the IP is in use, nothing is denied there"
        );
    }

    /// Logs IPs that two live pods claim, once, with the first of the pods.
    pub fn conflicts<'a>(&mut self, state: &State, changed: impl Iterator<Item = &'a Addr>) {
        for ip in changed {
            let claimants = first_claimants(state, *ip);
            if claimants.len() < 2 {
                self.conflicts.remove(ip);
            } else if self.conflicts.get(ip) != Some(&claimants) {
                let pods = self.texts(state, &claimants).join(",");
                tracing::warn!(%ip, pods, "conflict: live pods claim the same IP; its traffic passes");
                self.conflicts.insert(*ip, claimants);
            }
        }
    }

    /// IPs that two live pods claim now, with the names of the first ones.
    pub fn open_conflicts(&self, state: &State) -> impl Iterator<Item = (Addr, Vec<String>)> {
        self.conflicts
            .iter()
            .map(|(ip, uids)| (*ip, self.texts(state, uids)))
    }

    fn texts(&self, state: &State, uids: &[Uid]) -> Vec<String> {
        uids.iter()
            .map(|uid| self.names.text(state, *uid))
            .collect()
    }
}

/// The first live pods that show an IP and are not terminating.
fn first_claimants(state: &State, ip: Addr) -> Vec<Uid> {
    let pods = state.live_claimants(ip).map(|record| &record.pod);
    pods.filter(|pod| !pod.deleting)
        .map(|pod| pod.uid)
        .take(NAMED)
        .collect()
}

fn kind(names: &Names, state: &State, denied: &Denied, outcome: Outcome) -> Kind {
    let target = &denied.target;
    Kind {
        service: match state.numbers().service(target.service) {
            Some(name) => name.to_string(),
            None if target.service.is_some() => "unknown".to_owned(),
            None => NONE.to_owned(),
        },
        endpoint: SocketAddr::new(target.addr.ip(), target.port),
        protocol: Protocol::from_repr(target.protocol)
            .map_or(NONE, Protocol::as_str)
            .to_owned(),
        reason: denied.reason.as_str().into(),
        outcome: outcome.as_str().into(),
        meant: names.text(state, denied.dead),
        hit: names.text(state, denied.owner),
    }
}

/// The objects that get an Event about a denial: the Service, and the pod that has the IP now. None
/// without a Service.
fn about(names: &Names, state: &State, denied: &Denied) -> Vec<Subject> {
    let Some(service) = state.numbers().service(denied.target.service) else {
        return vec![];
    };
    let service = Subject::service(state, service.clone());
    let hit = names.name(state, denied.owner);
    let hit = hit.map(|name| Subject {
        kind: "Pod",
        name: name.clone(),
        uid: Some(denied.owner),
    });
    std::iter::once(service).chain(hit).collect()
}

/// The text of the log line: an observed packet would be denied, every other outcome is a denial.
fn message(outcome: &str) -> &'static str {
    if outcome == Outcome::Observed.as_str() {
        "would deny"
    } else {
        "denied"
    }
}

/// The key of the denial that a packet was reported for.
fn target(event: &Event) -> DenialKey {
    if !event.service.is_some() {
        return DenialKey::of_ip(event.dst);
    }
    DenialKey::new(event.dst, event.service, event.dst_port, event.protocol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::{Change, Fact, Pod};
    use epguard_core::state::Settings;

    #[test]
    fn only_observed_packets_are_logged_as_would_be_denied() {
        assert_eq!(message(Outcome::Observed.as_str()), "would deny");
        for stopped in Outcome::stopped() {
            assert_eq!(message(stopped.as_str()), "denied", "{stopped:?}");
        }
    }

    #[test]
    fn the_line_about_a_conflict_names_a_few_of_the_pods_that_show_the_ip() {
        let (mut state, ip) = (State::new(Settings::default()), Addr::v4([10, 244, 1, 10]));
        for number in 0..3 * NAMED {
            let name = epguard_core::facts::ObjectName::new("flood", number.to_string());
            let uid = Uid::parse(&number.to_string()).unwrap();
            let pod = Pod {
                uid,
                name,
                ips: [ip].into(),
                node: Some("a".into()),
                ..Pod::default()
            };
            state.apply(Duration::ZERO, Fact::Pod(Change::Applied(pod)));
        }
        assert_eq!(first_claimants(&state, ip).len(), NAMED);
    }

    #[test]
    fn packets_to_an_ip_itself_show_no_service_port_or_protocol() {
        let denied = Denied {
            target: DenialKey::of_ip(Addr::v4([10, 244, 1, 10])),
            reason: Reason::Terminated,
            dead: Uid::NONE,
            owner: Uid::NONE,
        };
        let names = Names::load(std::path::Path::new("/nonexistent")).unwrap();
        let kind = kind(
            &names,
            &State::new(Settings::default()),
            &denied,
            Outcome::Dropped,
        );
        let shown = [kind.service.clone(), kind.endpoint(), kind.protocol];
        assert_eq!(shown, ["-", "10.244.1.10", "-"]);
    }
}
