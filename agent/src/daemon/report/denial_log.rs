//! Log lines and counts of denied packets, grouped by what they have in common. A line has the counts per kind in ten
//! seconds, and the names of the Service, the pod that was meant and the pod that was hit.

use crate::daemon::report::tally::Tally;
use crate::kernel::maps::{Denied, Lift};
use crate::shared::drops::{Dropped, Kind, NONE, clients};
use epguard_common::{Addr, Count, DenialKey, Event, Outcome, Reason, Uid};
use epguard_core::facts::{Name, Protocol, named};
use epguard_core::state::{Changes, State};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Names and counts for the log and `epguard drops`. Names outlive their objects: a packet may come after its pod is
/// gone.
#[derive(Debug, Default)]
pub struct Report {
    pods: BTreeMap<Uid, Name>,
    conflicts: BTreeMap<Addr, Vec<Uid>>,
    tally: Tally,
}

impl Report {
    /// Adds packets of a denial as the kernel counted them. `last` is the time of the last one, `CLOCK_BOOTTIME`.
    pub fn count(&mut self, state: &State, denied: &Denied, outcome: Outcome, count: Count, last: Duration) {
        let kind = self.kind(state, denied, outcome);
        self.tally.count(last, kind, count);
    }

    /// Records the client of a packet that the kernel reported. [`Report::count`] counts the packet.
    pub fn client(&mut self, now: Duration, state: &State, event: &Event) {
        let numbers = Reason::from_number(event.reason).zip(Outcome::from_number(event.outcome));
        let Some((reason, outcome)) = numbers else {
            return;
        };
        let denied = Denied { target: target(event), reason, dead: event.dead_uid, owner: event.owner_uid };
        let kind = self.kind(state, &denied, outcome);
        self.tally.client(now, kind, event.src.ip());
    }

    fn kind(&self, state: &State, denied: &Denied, outcome: Outcome) -> Kind {
        let target = &denied.target;
        Kind {
            service: match state.service_name(target.service) {
                Some(name) => named(name),
                None if target.service.is_some() => "unknown".to_owned(),
                None => NONE.to_owned(),
            },
            endpoint: SocketAddr::new(target.addr.ip(), target.port),
            protocol: Protocol::from_number(target.protocol).map_or(NONE, Protocol::as_str).to_owned(),
            reason: denied.reason,
            outcome,
            meant: self.pod(state, denied.dead),
            hit: self.pod(state, denied.owner),
        }
    }

    /// Logs what was counted since the last line about the same kind.
    pub fn log(&mut self, now: Duration) {
        for due in self.tally.due(now) {
            let (kind, count) = (&due.kind, due.count);
            tracing::warn!(
                reason = kind.reason.as_str(),
                outcome = kind.outcome.as_str(),
                service = kind.service,
                meant = kind.meant,
                hit = kind.hit,
                client = clients(&due.clients),
                endpoint = kind.endpoint(),
                protocol = kind.protocol,
                packets = count.packets,
                syns = count.openings,
                "{}",
                message(kind.outcome)
            );
        }
    }

    /// Denied packets by what they have in common.
    #[must_use]
    pub fn drops(&self, now: Duration) -> Vec<Dropped> {
        self.tally.all(now)
    }

    /// How many rows of [`Report::drops`] were evicted.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.tally.evicted()
    }

    /// Logs that a packet from the IP of a dead pod was seen.
    pub fn lifted(&self, state: &State, lift: &Lift) {
        tracing::warn!(
            ip = %lift.ip,
            dead = self.pod(state, lift.dead),
            "a packet from the IP of a dead pod was seen: the IP is in use, nothing is denied there"
        );
    }

    /// Logs IPs that two live pods claim, once.
    pub fn conflicts<'a>(&mut self, state: &State, changed: impl Iterator<Item = &'a Addr>) {
        for ip in changed {
            let pods = state.live_claimants(*ip).map(|record| &record.pod);
            let claimants: Vec<Uid> = pods.filter(|pod| !pod.deleting).map(|pod| pod.uid).collect();
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
        let conflicts = self.conflicts.iter();
        conflicts.map(|(ip, uids)| (*ip, names(uids))).collect()
    }

    /// Adds the names that changed denials refer to.
    pub fn add_names(&mut self, state: &State, changes: &Changes) {
        let tables = state.tables();
        let denied = changes.denied.iter().filter_map(|key| tables.denied.get(key));
        let denied = denied.flat_map(|denial| [denial.dead_uid, denial.owner_uid]);
        let terminated = tables.terminated.values().map(|orphan_ip| orphan_ip.dead);
        for uid in denied.chain(terminated) {
            if let Some(name) = state.pod_name(uid) {
                self.pods.entry(uid).or_insert_with(|| name.clone());
            }
        }
    }

    /// Stores the names that denials refer to, and drops all others.
    pub fn keep_names(&mut self, state: &State) {
        let mut pods = BTreeMap::new();
        let denied =
            state.denials().flat_map(|(_, _, proven)| std::iter::once(proven.meant).chain(proven.owner));
        let terminated = state.tables().terminated.values().map(|orphan_ip| orphan_ip.dead);
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

    /// The name of a pod; also of a deleted pod while a denial refers to it.
    #[must_use]
    pub fn pod_name<'a>(&'a self, state: &'a State, uid: Uid) -> Option<&'a Name> {
        state.pod_name(uid).or_else(|| self.pods.get(&uid))
    }

    /// The name of a pod as text: its UID if the name is not known, `nobody` for [`Uid::NONE`].
    #[must_use]
    pub fn pod(&self, state: &State, uid: Uid) -> String {
        if uid == Uid::NONE {
            return "nobody".to_owned();
        }
        self.pod_name(state, uid).map_or_else(|| uid.to_string(), named)
    }
}

/// The text of the log line: an observed packet would be denied, every other outcome is a denial.
fn message(outcome: Outcome) -> &'static str {
    if outcome == Outcome::Observed { "would deny" } else { "denied" }
}

/// The key of the denial that a packet was reported for.
#[must_use]
pub fn target(event: &Event) -> DenialKey {
    if !event.service.is_some() {
        return DenialKey::of_ip(event.dst);
    }
    DenialKey::new(event.dst, event.service, event.dst_port, event.protocol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::state::{Ipam, Ranges, Settings};

    #[test]
    fn only_observed_packets_are_logged_as_would_be_denied() {
        assert_eq!(message(Outcome::Observed), "would deny");
        for stopped in Outcome::stopped() {
            assert_eq!(message(stopped), "denied", "{stopped:?}");
        }
    }

    #[test]
    fn packets_to_an_ip_itself_show_no_service_port_or_protocol() {
        let settings = Settings { node: "n".into(), ipam: Ipam::Auto, ranges: Ranges::default() };
        let mut report = Report::default();
        let denied = Denied {
            target: DenialKey::of_ip(Addr::v4([10, 244, 1, 10])),
            reason: Reason::Terminated,
            dead: Uid::NONE,
            owner: Uid::NONE,
        };
        let (now, one) = (Duration::from_secs(1), Count::one(60, true));
        report.count(&State::new(settings), &denied, Outcome::Dropped, one, now);
        let kind = report.drops(now).remove(0).kind;
        let shown = [kind.service.clone(), kind.endpoint(), kind.protocol];
        assert_eq!(shown, ["-", "10.244.1.10", "-"]);
    }
}
