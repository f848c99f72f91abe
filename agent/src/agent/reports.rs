//! Denied packets, as the programs report them: who hears of them.

use super::{Agent, now};
use crate::announce::{Denial, Subject};
use crate::events::words;
use crate::facts::Protocol;
use crate::state::Socket;
use anyhow::Result;
use epguard_common::{Event, Outcome};
use std::time::Duration;

impl Agent {
    /// Reports denied packets, as many as the node is allowed.
    pub fn on_events(&mut self, mut events: Vec<Event>) -> Result<()> {
        self.budget.admit(now(), &mut events);
        let mut spoke = false;
        for event in &events {
            if event.outcome == Outcome::Lifted as u32 {
                spoke = true;
                self.hear(event.src, Duration::from_nanos(event.at_ns));
                continue;
            }
            self.report.denied(now(), &self.state, event);
            if self.announcer.tells_of_denials()
                && let Some(denial) = self.denial(event)
            {
                self.announcer.denied(now(), &denial);
            }
            self.state.denied(event);
            if let Some(protocol) = Protocol::from_number(event.protocol) {
                let socket = Socket {
                    ip: event.dst,
                    port: event.dst_port,
                    protocol,
                };
                self.state.hit(now(), event.slot, &socket);
            }
        }
        if spoke { self.write() } else { Ok(()) }
    }

    /// Keeps the names that denials refer to for the agent's next process, which may find the pods gone.
    pub(super) fn keep_names(&mut self) {
        if self.state.is_synced() {
            // Denials that were restored changed no map, so nothing else has looked their names up.
            self.report.remember(&self.state);
            let (state, report) = (&self.state, &self.report);
            let named = |(uid, _)| Some((uid, report.pod_name(state, uid)?.clone()));
            self.names.keep(report.pods().filter_map(named));
        }
    }

    /// For whoever looks at the objects. Where no Service was meant there is no object to tell it of.
    fn denial(&self, event: &Event) -> Option<Denial> {
        let service = self.state.service_name(event.slot)?.clone();
        let hit = self.report.pod_name(&self.state, event.owner_uid);
        let (reason, outcome) = words(event);
        Some(Denial {
            service: Subject::service(&self.state, service),
            ip: event.dst.ip(),
            meant: (event.dead_uid, self.report.pod(&self.state, event.dead_uid)),
            owner: event.owner_uid,
            hit: hit.map(|name| Subject {
                kind: "Pod",
                name: name.clone(),
                uid: Some(event.owner_uid),
            }),
            reason,
            outcome,
        })
    }
}
