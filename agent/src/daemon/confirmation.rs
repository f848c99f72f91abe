//! Handles pending denials: asks for a second list, and raises the breaker's alarm.

use crate::daemon::report::denial_log::Report;
use crate::daemon::report::kube_events::Subject;
use crate::shared::args;
use crate::shared::status::PendingDenials;
use crate::watch::Watches;
use epguard_core::facts::{Name, named};
use epguard_core::state::{State, Trip};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pending denials that are younger raise no alarm: the slice that follows the pod's end settles them.
const ALARM_AFTER: Duration = Duration::from_secs(1);

/// Alarms that are already logged.
#[derive(Default)]
pub struct Confirmation {
    tripped: BTreeMap<Name, Trip>,
}

impl Confirmation {
    /// Asks for the wanted second lists, and raises alarms.
    pub fn tick(&mut self, now: Duration, state: &mut State, api: &Watches, report: &mut Report) {
        for opinion in state.take_opinions(now) {
            tracing::info!(kind = %opinion.kind, of = ?opinion.selection, "requesting a second list");
            api.list(opinion.kind, opinion.selection, state.spread());
        }
        self.alarm(now, state, report);
    }

    /// Carries out the pending denials of a Service (`namespace/name`), or of all Services if none is named; and those that are only
    /// observed because one was wrong.
    pub fn release(&self, now: Duration, state: &mut State, service: &str) {
        let named = args::name(service);
        if named.is_none() && !service.is_empty() {
            return;
        }
        let released = state.release_breaker(now, named.as_ref());
        tracing::warn!(released, service, "breaker released by hand");
    }

    fn alarm(&mut self, now: Duration, state: &State, report: &mut Report) {
        let mut trips: BTreeMap<Name, Trip> = state
            .trips(now)
            .into_iter()
            .filter(|(_, trip)| trip.is_a_mass() && now.saturating_sub(trip.since) >= ALARM_AFTER)
            .map(|(name, trip)| (name.clone(), trip))
            .collect();
        self.tripped.retain(|name, trip| {
            let still = trips.remove(name);
            if still.is_none() {
                tracing::error!(service = named(name), held_ms = ms(now, trip.since), "breaker released");
            }
            still.is_some()
        });
        for (name, trip) in trips {
            tracing::error!(
                service = named(&name),
                held = trip.held,
                denied = trip.denied,
                ready_recently = trip.ready_recently,
                since_ms = ms(now, trip.since),
                why = %trip.why,
                "breaker tripped: these endpoints are only observed until a second list agrees"
            );
            report.announcer.tripped(now, Subject::service(state, name.clone()), &trip);
            self.tripped.insert(name, trip);
        }
    }
}

/// The Services with pending denials, for the status.
pub fn pending_denials(state: &State, now: Duration) -> Vec<PendingDenials> {
    let trips = state.trips(now).into_iter();
    trips
        .map(|(name, trip)| PendingDenials {
            service: named(name),
            held: trip.held,
            ready_recently: trip.ready_recently,
            since_ms: ms(now, trip.since),
            why: trip.why,
        })
        .collect()
}

fn ms(now: Duration, since: Duration) -> u64 {
    u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX)
}
