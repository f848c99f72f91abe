//! Handles pending denials: asks for a second list, and raises the breaker's alarm.

use crate::daemon::report::denial_log::Report;
use crate::daemon::report::kube_events::Subject;
use crate::shared::args;
use crate::shared::status::PendingDenials;
use crate::watch::Watches;
use epguard_core::facts::ObjectName;
use epguard_core::state::{State, Trip};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pending denials that are younger raise no alarm: the slice that follows the pod's end settles
/// them.
const ALARM_AFTER: Duration = Duration::from_secs(1);

/// Alarms that begin or end at once; others follow at the next ticks. The pods of thousands of
/// Services can die together.
const AT_ONCE: usize = 16;

/// Services whose breaker has tripped.
type Alarms = Vec<(ObjectName, Trip)>;

/// Alarms that are already logged.
#[derive(Default)]
pub struct Confirmation {
    tripped: BTreeMap<ObjectName, Trip>,
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

    /// Carries out the pending denials of a Service (`namespace/name`), or of all Services if none
    /// is named; and those that are only observed because one was wrong.
    pub fn release(&self, now: Duration, state: &mut State, service: &str) {
        let named = args::name(service);
        if named.is_none() && !service.is_empty() {
            return;
        }
        let released = state.release_breaker(now, named.as_ref());
        tracing::warn!(released, service, "breaker released by hand");
    }

    fn alarm(&mut self, now: Duration, state: &State, report: &mut Report) {
        let trips = state
            .trips(now)
            .into_iter()
            .filter(|(_, trip)| trip.is_a_mass() && now.saturating_sub(trip.since) >= ALARM_AFTER)
            .map(|(name, trip)| (name.clone(), trip))
            .collect();
        let (begun, ended) = self.changes(trips);
        for (name, trip) in ended {
            tracing::error!(
                service = name.to_string(),
                held_ms = ms(now, trip.since),
                "breaker released"
            );
        }
        for (name, trip) in begun {
            tracing::error!(
                service = name.to_string(),
                held = trip.held,
                denied = trip.denied,
                ready_recently = trip.ready_recently,
                since_ms = ms(now, trip.since),
                why = %trip.why,
                "breaker tripped: these endpoints are only observed until a second list agrees"
            );
            report
                .announcer
                .tripped(now, Subject::service(state, name), &trip);
        }
    }

    /// The alarms that begin, and those that end, by what has tripped now.
    fn changes(&mut self, mut trips: BTreeMap<ObjectName, Trip>) -> (Alarms, Alarms) {
        let mut room = AT_ONCE;
        let ended = self.tripped.extract_if(.., |name, _| {
            let ends = trips.remove(name).is_none() && room > 0;
            room -= usize::from(ends);
            ends
        });
        let ended = ended.collect();
        let begun: Alarms = trips.into_iter().take(AT_ONCE).collect();
        self.tripped.extend(begun.iter().cloned());
        (begun, ended)
    }
}

/// The Services with pending denials, for the status.
pub fn pending_denials(state: &State, now: Duration) -> Vec<PendingDenials> {
    let trips = state.trips(now).into_iter();
    trips
        .map(|(name, trip)| PendingDenials {
            service: name.to_string(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::state::Why;

    #[test]
    fn of_thousands_of_alarms_a_few_begin_or_end_at_once_and_each_does_once() {
        let trip = Trip {
            held: 2,
            denied: 2,
            ready_recently: 2,
            since: Duration::ZERO,
            why: Why::Half,
        };
        let name = |number: usize| ObjectName::new("shop", format!("web-{number}"));
        let trips = || {
            (0..=2 * AT_ONCE)
                .map(|number| (name(number), trip.clone()))
                .collect()
        };
        let mut confirmation = Confirmation::default();
        let mut counts = |trips| {
            let (begun, ended) = confirmation.changes(trips);
            (begun.len(), ended.len())
        };
        assert_eq!(
            [(); 4].map(|()| counts(trips())),
            [(AT_ONCE, 0), (AT_ONCE, 0), (1, 0), (0, 0)]
        );
        let none = BTreeMap::new;
        assert_eq!(
            [(); 4].map(|()| counts(none())),
            [(0, AT_ONCE), (0, AT_ONCE), (0, 1), (0, 0)]
        );
    }
}
