//! Denied packets: from the kernel's counts and reports to the log, the Events and `epguard drops`.

use super::{Agent, now};
use crate::daemon::report::denial_log::target;
use crate::daemon::report::kube_events::{Denial, Subject};
use crate::kernel::maps::Denied;
use anyhow::Result;
use epguard_common::{DenialKey, Event, Outcome};
use epguard_core::facts::Protocol;
use epguard_core::state::Endpoint;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time between two readings of the counts of all denials. Denials with reported packets are read at each tick.
const ALL: Duration = Duration::from_secs(10);

/// Which denials to read the counts of.
#[derive(Debug, Default)]
pub(super) struct DueCounts {
    active: BTreeSet<DenialKey>,
    all: Duration,
}

impl Agent {
    /// Takes in reports of denied packets, as many as the node's budget allows.
    pub fn on_events(&mut self, mut events: Vec<Event>) -> Result<()> {
        self.budget.admit(now(), &mut events);
        let mut spoke = false;
        for event in &events {
            if event.outcome == Outcome::Lifted as u32 {
                spoke = true;
                self.apply_lift(event.src, Duration::from_nanos(event.at_ns));
                continue;
            }
            if self.state.is_listed() {
                self.report.client(now(), &self.state, event);
            }
            self.due_counts.active.insert(target(event));
            self.state.denied(event);
            if let Some(protocol) = Protocol::from_number(event.protocol) {
                let socket = Endpoint { ip: event.dst, port: event.dst_port, protocol };
                self.state.hit(now(), event.service, &socket);
            }
        }
        if spoke { self.write() } else { Ok(()) }
    }

    /// Stores the names that denials refer to. After a restart, the agent's next process may no longer find the pods
    /// in the API.
    pub(super) fn keep_names(&mut self) {
        if self.state.is_synced() {
            // Restored denials changed no map, so their names have not been recorded yet.
            self.report.keep_names(&self.state);
            let (state, report) = (&self.state, &self.report);
            let named = |(uid, _)| Some((uid, report.pod_name(state, uid)?.clone()));
            self.names.keep(report.pods().filter_map(named));
        }
    }

    /// Counts and logs what was denied since the last tick.
    pub(super) fn report_denied(&mut self) -> Result<()> {
        if now().saturating_sub(self.due_counts.all) >= ALL {
            self.count_all_denied()?;
        } else {
            let active = std::mem::take(&mut self.due_counts.active);
            self.count_denied(|target| active.contains(target))?;
        }
        self.report.log(now());
        Ok(())
    }

    /// Counts the packets of all denials, for `epguard drops`.
    pub(super) fn count_all_denied(&mut self) -> Result<()> {
        (self.due_counts.all, self.due_counts.active) = (now(), BTreeSet::new());
        self.count_denied(|_| true)
    }

    fn count_denied(&mut self, wanted: impl Fn(&DenialKey) -> bool) -> Result<()> {
        // An earlier agent's denials have no names before that. Their counts stay in the kernel.
        if !self.state.is_listed() {
            return Ok(());
        }
        for reading in self.writer.take_readings(wanted)? {
            let last = Duration::from_nanos(reading.count.last_ns);
            for (outcome, count) in self.ledger.added(&reading) {
                self.report.count(&self.state, &reading.denied, outcome, count, last);
                if self.announcer.reports_denials()
                    && let Some(denial) = self.denial(&reading.denied, outcome)
                {
                    self.announcer.denied(last, &denial, count.packets);
                }
            }
        }
        Ok(())
    }

    /// A denial for an Event. None without a Service: then there is no object to write the Event about.
    fn denial(&self, denied: &Denied, outcome: Outcome) -> Option<Denial> {
        let service = self.state.service_name(denied.target.service)?.clone();
        let hit = self.report.pod_name(&self.state, denied.owner);
        Some(Denial {
            service: Subject::service(&self.state, service),
            ip: denied.target.addr.ip(),
            meant: (denied.dead, self.report.pod(&self.state, denied.dead)),
            owner: denied.owner,
            hit: hit.map(|name| Subject { kind: "Pod", name: name.clone(), uid: Some(denied.owner) }),
            reason: denied.reason,
            outcome,
        })
    }
}
