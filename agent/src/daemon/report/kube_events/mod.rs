//! Events of the Kubernetes API about denied flows and breaker alarms. Best effort: the log has all
//! of them.
//!
//! ```text
//! denied packets, alarms -> event (its text and form), Series (when to write it) -> writer (a task of its own)
//! ```

mod event;
mod writer;

use crate::daemon::report::tally::Course;
use crate::shared::drops::Kind;
use clap::ValueEnum;
use epguard_common::{Count, Uid};
use epguard_core::bucket::Bucket;
use epguard_core::facts::ObjectName;
use epguard_core::state::{State, StoppedService};
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// Limit of all writes together: so many at once after a pause ...
const BURST: u32 = 10;

/// ... and one more in this time.
const INTERVAL: Duration = Duration::from_secs(10);

/// The Events that the agent writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Announce {
    /// Nothing
    None,
    /// Services with denials that the breaker stops
    Breaker,
    /// Also denied flows, and in observe flows that would be denied: on the Service, and on the pod
    /// that has the IP now
    All,
}

/// An object of the API that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// `Service` or `Pod`.
    pub kind: &'static str,
    /// Namespace and name.
    pub name: ObjectName,
    /// UID of the object. Without it `kubectl describe` does not find the Event.
    pub uid: Option<Uid>,
}

impl Subject {
    /// A Service, with its UID if that is known.
    pub fn service(state: &State, name: ObjectName) -> Self {
        Self {
            kind: "Service",
            uid: state.cluster().service(&name).map(|service| service.uid),
            name,
        }
    }
}

/// Queues Events without ever blocking. Times are `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub struct Announcer {
    what: Announce,
    node: String,
    budget: Bucket,
    series: Series,
    /// Once it is closed, no Event is queued any more. While it is full, Events wait in their
    /// series.
    queue: mpsc::Sender<DueEvent>,
}

impl Announcer {
    /// Starts the task that writes Events, unless `what` selects none. The task ends with the
    /// announcer, and pauses while the API server forbids it.
    pub fn start(client: Client, node: String, what: Announce) -> Self {
        let (queue, due) = mpsc::channel(BURST as usize);
        if what != Announce::None {
            tokio::spawn(writer::write(client, due));
        }
        Self {
            what,
            node,
            budget: Bucket::new(INTERVAL, BURST),
            series: Series::default(),
            queue,
        }
    }

    /// Counts an alarm: the breaker stops denials of this Service.
    pub fn count_stopped(&mut self, now: Duration, about: Subject, stopped: &StoppedService) {
        if !self.queue.is_closed() {
            let event = event::of_alarm(&about, stopped, &self.node);
            self.series.count(now, about, "alarm", event, 1);
        }
    }

    /// True if denied packets become Events.
    pub fn reports_denials(&self) -> bool {
        self.what == Announce::All && !self.queue.is_closed()
    }

    /// Counts denied packets of a kind. The port makes no difference: one pod that has ended is one
    /// Event.
    pub fn denied(&mut self, last: Duration, about: Subject, kind: &Kind, packets: u64) {
        let event = event::of_denial(&about, kind, &self.node);
        let topic = event.note.clone().unwrap_or_default();
        self.series.count(last, about, &topic, event, packets);
    }

    /// Queues the Events that are due.
    pub fn tick(&mut self, now: Duration) {
        while let Ok(place) = self.queue.try_reserve() {
            let next = self
                .series
                .next(now, Timestamp::now(), || self.budget.take(now));
            let Some(due) = next else { return };
            place.send(due);
        }
    }
}

/// Time between two writes of one Event.
const REST: Duration = Duration::from_mins(1);

/// What was quiet for so long gets another Event when it occurs again: API servers delete Events
/// after that time (`--event-ttl`).
const MEMORY: Duration = Duration::from_hours(1);

/// How many Events are followed. Beyond it, the one that occurred longest ago is forgotten, if it
/// can be one that was written.
const MOST: usize = 1024;

/// When to write an Event: once when it is new, then its count at most once a minute. Holds the
/// Events of the last hour, by their object and what they say: each as of its first occurrence,
/// without its times. Pure: callers pass the time.
#[derive(Debug, Default)]
struct Series(BTreeMap<(Subject, String), Course<Event>>);

/// A complete Event to write.
#[derive(Debug)]
struct DueEvent {
    event: Event,
    /// True if it was written before: then only its series is written.
    is_repeated: bool,
}

impl Series {
    /// Counts so many occurrences. Those about one object and topic are one Event, the first one.
    fn count(&mut self, now: Duration, about: Subject, topic: &str, event: Event, times: u64) {
        let key = (about, topic.to_owned());
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            let oldest = self
                .0
                .iter()
                .min_by_key(|(_, course)| (course.reported.is_none(), course.last));
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let course = self.0.entry(key).or_insert_with(|| Course::new(now, event));
        course.add(
            now,
            Count {
                packets: times,
                ..Count::default()
            },
        );
    }

    /// The next Event to write, if one is due and one may be written: then it counts as written.
    /// New Events come before counts of earlier ones; within each, the longest waiting comes first.
    /// `now` (`CLOCK_BOOTTIME`) and `wall` are the same moment.
    fn next(
        &mut self,
        now: Duration,
        wall: Timestamp,
        may_write: impl FnOnce() -> bool,
    ) -> Option<DueEvent> {
        self.0
            .retain(|_, course| now.saturating_sub(course.last) < MEMORY);
        let course = self
            .0
            .values_mut()
            .filter(|course| course.is_due(now, REST))
            .min_by_key(|course| (course.reported.map(|(at, _)| at), course.first))?;
        if !may_write() {
            return None;
        }
        let is_repeated = course.reported.is_some();
        course.reported = Some((now, course.count));
        let mut event = course.about.clone();
        event.event_time = Some(wall_time(course.first, now, wall));
        let count = course.count.packets;
        // A series begins with the second occurrence.
        if count > 1 {
            event.series = Some(EventSeries {
                count: i32::try_from(count).unwrap_or(i32::MAX),
                last_observed_time: wall_time(course.last, now, wall),
            });
        }
        Some(DueEvent { event, is_repeated })
    }
}

/// The wall time of a moment of `CLOCK_BOOTTIME`; `now` and `wall` are the same moment.
fn wall_time(then: Duration, now: Duration, wall: Timestamp) -> MicroTime {
    let ago = now.saturating_sub(then);
    MicroTime(wall.checked_sub(ago).unwrap_or(wall))
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::Uid;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn service(name: &str) -> Subject {
        Subject {
            kind: "Service",
            name: epguard_core::facts::ObjectName::new("shop", name),
            uid: None,
        }
    }

    fn pod(uid: u8) -> Subject {
        let uid = Some(Uid { octets: [uid; 16] });
        Subject {
            kind: "Pod",
            name: ObjectName::new("shop", "b"),
            uid,
        }
    }

    fn count(series: &mut Series, at: u64, about: &Subject, topic: &str, times: u64) {
        let event = Event {
            note: Some(format!("{topic} at {at}")),
            ..Event::default()
        };
        series.count(s(at), about.clone(), topic, event, times);
    }

    /// The Events that are written at a time, at most so many: note, count, and whether they were
    /// written before.
    fn written(series: &mut Series, at: u64, most: usize) -> Vec<(String, i32, bool)> {
        let next = || series.next(s(at), Timestamp::UNIX_EPOCH, || true);
        let count = |event: &Event| event.series.as_ref().map_or(1, |series| series.count);
        let all = std::iter::from_fn(next).take(most);
        all.map(|due| {
            let note = due.event.note.clone().unwrap();
            (note, count(&due.event), due.is_repeated)
        })
        .collect()
    }

    fn row(note: &str, count: i32, repeated: bool) -> (String, i32, bool) {
        (note.to_owned(), count, repeated)
    }

    #[test]
    fn a_thousand_occurrences_are_one_event_and_its_count_follows_once_a_minute() {
        let mut series = Series::default();
        count(&mut series, 100, &service("web"), "x", 1);
        assert_eq!(written(&mut series, 101, 9), [row("x at 100", 1, false)]);
        count(&mut series, 102, &service("web"), "x", 1000);
        for at in 102..161 {
            assert_eq!(written(&mut series, at, 9), []);
        }
        assert_eq!(written(&mut series, 161, 9), [row("x at 100", 1001, true)]);
        assert_eq!(written(&mut series, 300, 9), [], "nothing new");
        assert_eq!(written(&mut series, 102 + 3600, 9), []);
        count(&mut series, 4000, &service("web"), "x", 1);
        assert_eq!(
            written(&mut series, 4000, 9),
            [row("x at 4000", 1, false)],
            "after an hour the API server has deleted it"
        );
    }

    #[test]
    fn the_longest_waiting_is_written_first_whatever_it_is_about_and_none_is_lost_without_a_budget()
    {
        let mut series = Series::default();
        for (at, name) in [(100, "z"), (101, "a"), (102, "b")] {
            count(&mut series, at, &service(name), "x", 2);
        }
        assert!(
            series
                .next(s(110), Timestamp::UNIX_EPOCH, || false)
                .is_none()
        );
        assert_eq!(
            written(&mut series, 110, 2),
            [row("x at 100", 2, false), row("x at 101", 2, false)]
        );
        count(&mut series, 120, &service("z"), "x", 1);
        assert_eq!(
            written(&mut series, 181, 9),
            [row("x at 102", 2, false), row("x at 100", 3, true)]
        );
    }

    #[test]
    fn a_pod_that_was_made_anew_under_its_name_gets_an_event_of_its_own() {
        let mut series = Series::default();
        count(&mut series, 100, &pod(3), "x", 5);
        count(&mut series, 101, &pod(4), "x", 2);
        assert_eq!(
            written(&mut series, 102, 9),
            [row("x at 100", 5, false), row("x at 101", 2, false)]
        );
    }

    #[test]
    fn beyond_the_bound_the_one_that_occurred_longest_ago_is_forgotten() {
        let mut series = Series::default();
        for at in 0..=MOST as u64 {
            count(&mut series, at, &service("web"), &format!("{at:05}"), 1);
        }
        let all = written(&mut series, 1_100, usize::MAX);
        assert_eq!((all.len(), all[0].0.as_str()), (MOST, "00001 at 1"));
    }
}
