//! When to write an Event: once when it is new, then its count at most once a minute. Pure: callers pass the time.

use super::Subject;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two writes of one Event.
const REST: Duration = Duration::from_mins(1);

/// What was quiet for so long gets another Event when it occurs again: API servers delete Events after that time
/// (`--event-ttl`).
const MEMORY: Duration = Duration::from_hours(1);

/// How many Events are followed. Beyond it, the one that occurred longest ago is forgotten, if it can be one that was written.
const MOST: usize = 1024;

/// The Events of the last hour, by their object and what they say.
#[derive(Debug, Default)]
pub struct Series(BTreeMap<(Subject, String), Course>);

/// The occurrences of what an Event reports.
#[derive(Debug)]
struct Course {
    /// The Event of the first occurrence, without its times.
    event: Event,
    count: u64,
    first: Duration,
    last: Duration,
    /// When it was written before, and the count that it showed.
    written: Option<(Duration, u64)>,
}

/// An Event to write.
#[derive(Debug, Default)]
pub struct Entry {
    /// The complete Event.
    pub event: Event,
    /// True if it was written before: then only its series is written.
    pub repeated: bool,
}

impl Series {
    /// Counts so many occurrences. Those about one object and topic are one Event, the first one.
    pub fn count(&mut self, now: Duration, about: Subject, topic: &str, event: Event, times: u64) {
        let key = (about, topic.to_owned());
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, course)| (course.written.is_none(), course.last));
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let new = Course { event, count: 0, first: now, last: now, written: None };
        let course = self.0.entry(key).or_insert(new);
        course.count += times;
        course.last = course.last.max(now);
    }

    /// The next Event to write, if one is due and one may be written: then it counts as written. New Events come before counts of
    /// earlier ones; within each, the longest waiting comes first. `now` (`CLOCK_BOOTTIME`) and `wall` are the same moment.
    pub fn next(
        &mut self,
        now: Duration,
        wall: Timestamp,
        may_write: impl FnOnce() -> bool,
    ) -> Option<Entry> {
        self.0.retain(|_, course| now.saturating_sub(course.last) < MEMORY);
        let has_rested = |at| now.saturating_sub(at) >= REST;
        let is_due = |course: &&mut Course| {
            course.written.is_none_or(|(at, count)| course.count > count && has_rested(at))
        };
        let due = self.0.values_mut().filter(is_due);
        let course = due.min_by_key(|course| (course.written, course.first)).filter(|_| may_write())?;
        let at = |then| MicroTime(wall.checked_sub(now.saturating_sub(then)).unwrap_or(wall));
        let repeated = course.written.replace((now, course.count)).is_some();
        // A series begins with the second occurrence.
        let series = (course.count > 1).then(|| EventSeries {
            count: i32::try_from(course.count).unwrap_or(i32::MAX),
            last_observed_time: at(course.last),
        });
        let event = Event { event_time: Some(at(course.first)), series, ..course.event.clone() };
        Some(Entry { event, repeated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::Uid;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn service(name: &str) -> Subject {
        Subject { kind: "Service", name: ("shop".into(), name.into()), uid: None }
    }

    fn pod(uid: u8) -> Subject {
        let uid = Some(Uid { octets: [uid; 16] });
        Subject { kind: "Pod", name: ("shop".into(), "b".into()), uid }
    }

    fn count(series: &mut Series, at: u64, about: &Subject, topic: &str, times: u64) {
        let event = Event { note: Some(format!("{topic} at {at}")), ..Event::default() };
        series.count(s(at), about.clone(), topic, event, times);
    }

    /// The Events that are written at a time, at most so many: note, count, and whether they were written before.
    fn written(series: &mut Series, at: u64, most: usize) -> Vec<(String, i32, bool)> {
        let next = || series.next(s(at), Timestamp::UNIX_EPOCH, || true);
        let count = |event: &Event| event.series.as_ref().map_or(1, |series| series.count);
        let all = std::iter::from_fn(next).take(most);
        all.map(|Entry { event, repeated }| (event.note.clone().unwrap(), count(&event), repeated)).collect()
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
    fn the_longest_waiting_is_written_first_whatever_it_is_about_and_none_is_lost_without_a_budget() {
        let mut series = Series::default();
        for (at, name) in [(100, "z"), (101, "a"), (102, "b")] {
            count(&mut series, at, &service(name), "x", 2);
        }
        assert!(series.next(s(110), Timestamp::UNIX_EPOCH, || false).is_none());
        assert_eq!(written(&mut series, 110, 2), [row("x at 100", 2, false), row("x at 101", 2, false)]);
        count(&mut series, 120, &service("z"), "x", 1);
        assert_eq!(written(&mut series, 181, 9), [row("x at 102", 2, false), row("x at 100", 3, true)]);
    }

    #[test]
    fn a_pod_that_was_made_anew_under_its_name_gets_an_event_of_its_own() {
        let mut series = Series::default();
        count(&mut series, 100, &pod(3), "x", 5);
        count(&mut series, 101, &pod(4), "x", 2);
        assert_eq!(written(&mut series, 102, 9), [row("x at 100", 5, false), row("x at 101", 2, false)]);
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
