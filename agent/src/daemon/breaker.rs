//! What the agent does about stopped denials: it requests second lists, and raises the breaker's
//! alarm.

use crate::daemon::report::denial_log::Report;
use crate::daemon::report::kube_events::Subject;
use crate::shared::args;
use crate::shared::status::StoppedDenials;
use crate::watch::Watches;
use epguard_core::facts::ObjectName;
use epguard_core::state::{State, StoppedService};
use std::collections::BTreeMap;
use std::time::Duration;

/// Denials that have been stopped for less raise no alarm: the slice that follows the pod's end
/// settles them.
const ALARM_AFTER: Duration = Duration::from_secs(1);

/// Alarms that begin or end at once; others follow at the next ticks. The pods of thousands of
/// Services can die together.
const AT_ONCE: usize = 16;

/// The alarms of Services with stopped denials.
#[derive(Default)]
pub struct BreakerAlarms {
    /// Those that are already logged.
    raised: BTreeMap<ObjectName, StoppedService>,
}

/// Alarms that begin, and alarms that end.
struct AlarmChanges {
    begun: Vec<(ObjectName, StoppedService)>,
    ended: Vec<(ObjectName, StoppedService)>,
}

impl BreakerAlarms {
    /// Requests the wanted second lists, and raises alarms.
    pub fn tick(&mut self, now: Duration, state: &mut State, api: &Watches, report: &mut Report) {
        for list in state.take_second_lists(now) {
            tracing::info!(kind = %list.kind, of = ?list.selection, "requesting a second list");
            api.list(list.kind, list.selection, state.spread());
        }
        self.update_alarms(now, state, report);
    }

    /// Carries out the stopped denials of a Service (`namespace/name`), or of all Services if none
    /// is named; and those that are only observed because one was wrong.
    pub fn release(&self, now: Duration, state: &mut State, service: &str) {
        let name = args::name(service);
        if name.is_none() && !service.is_empty() {
            return;
        }
        let released = state.release_breaker(now, name.as_ref());
        tracing::warn!(released, service, "breaker released by hand");
    }

    fn update_alarms(&mut self, now: Duration, state: &State, report: &mut Report) {
        let mut stopped = BTreeMap::new();
        for (name, service) in state.stopped_services(now) {
            if service.is_a_mass() && now.saturating_sub(service.since) >= ALARM_AFTER {
                stopped.insert(name.clone(), service);
            }
        }
        let changes = self.changes(stopped);
        for (name, service) in changes.ended {
            tracing::error!(
                service = name.to_string(),
                stopped_ms = milliseconds_since(now, service.since),
                "breaker stops no denials any more"
            );
        }
        for (name, service) in changes.begun {
            tracing::error!(
                service = name.to_string(),
                stopped = service.stopped,
                denied = service.denied,
                ready_recently = service.ready_recently,
                since_ms = milliseconds_since(now, service.since),
                why = %service.reason,
                "breaker stops denials: these endpoints are only observed until a second list agrees"
            );
            report
                .announcer
                .count_stopped(now, Subject::service(state, name), &service);
        }
    }

    /// The alarms that begin, and those that end, by what is stopped now.
    fn changes(&mut self, mut stopped: BTreeMap<ObjectName, StoppedService>) -> AlarmChanges {
        let mut over = Vec::new();
        for name in self.raised.keys() {
            if stopped.remove(name).is_none() && over.len() < AT_ONCE {
                over.push(name.clone());
            }
        }
        let mut ended = Vec::new();
        for name in over {
            ended.extend(self.raised.remove_entry(&name));
        }
        let begun: Vec<(ObjectName, StoppedService)> = stopped.into_iter().take(AT_ONCE).collect();
        self.raised.extend(begun.iter().cloned());
        AlarmChanges { begun, ended }
    }
}

/// The Services with stopped denials, for the status.
pub fn stopped_denials(state: &State, now: Duration) -> Vec<StoppedDenials> {
    state
        .stopped_services(now)
        .into_iter()
        .map(|(name, service)| StoppedDenials {
            service: name.to_string(),
            stopped: service.stopped,
            ready_recently: service.ready_recently,
            since_ms: milliseconds_since(now, service.since),
            resource_version: service.resource_version,
            why: service.reason,
        })
        .collect()
}

fn milliseconds_since(now: Duration, since: Duration) -> u64 {
    u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::state::StopReason;

    #[test]
    fn of_thousands_of_alarms_a_few_begin_or_end_at_once_and_each_does_once() {
        let service = StoppedService {
            stopped: 2,
            denied: 2,
            ready_recently: 2,
            since: Duration::ZERO,
            resource_version: 41,
            reason: StopReason::MoreThanHalf,
        };
        let mut all = BTreeMap::new();
        for number in 0..=2 * AT_ONCE {
            let name = ObjectName::new("shop", format!("web-{number}"));
            all.insert(name, service.clone());
        }
        let mut alarms = BreakerAlarms::default();
        let mut count_changes = |stopped: &BTreeMap<ObjectName, StoppedService>| {
            let changes = alarms.changes(stopped.clone());
            (changes.begun.len(), changes.ended.len())
        };
        assert_eq!(
            [(); 4].map(|()| count_changes(&all)),
            [(AT_ONCE, 0), (AT_ONCE, 0), (1, 0), (0, 0)]
        );
        assert_eq!(
            [(); 4].map(|()| count_changes(&BTreeMap::new())),
            [(0, AT_ONCE), (0, AT_ONCE), (0, 1), (0, 0)]
        );
    }
}
