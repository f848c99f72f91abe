//! When to write an Event: once when its topic is new, then its count at most once a minute. Pure: callers pass the
//! time, `CLOCK_BOOTTIME`.

use super::topic::Topic;
use epguard_core::bucket::Bucket;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two writes of one Event.
const REST: Duration = Duration::from_mins(1);

/// A topic that was quiet for so long is new when it occurs again: API servers delete Events after that time
/// (`--event-ttl`).
const MEMORY: Duration = Duration::from_hours(1);

/// How many topics are stored.
const MAX: usize = 1024;

/// Limit of all writes together: so many at once after a pause ...
const BURST: u32 = 10;

/// ... and one more in this time.
const INTERVAL: Duration = Duration::from_secs(10);

/// The topics that occurred within the last hour.
#[derive(Debug)]
pub struct Series {
    topics: BTreeMap<Topic, Course>,
    budget: Bucket,
    next: u64,
    forgotten: u64,
}

/// The occurrences of a topic, and its Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// A number that no other topic has.
    pub number: u64,
    /// The text, from the first occurrence.
    pub note: String,
    /// How often it occurred.
    pub count: u64,
    /// Time of the first occurrence.
    pub first: Duration,
    /// Time of the last occurrence.
    pub last: Duration,
    /// When the Event was written before, and the count that it showed.
    pub written: Option<(Duration, u64)>,
}

impl Series {
    /// Without topics. Numbers begin with `first`: the caller draws it at random, so that those of two agents differ.
    pub fn new(first: u64) -> Self {
        Self { topics: BTreeMap::new(), budget: Bucket::new(INTERVAL, BURST), next: first, forgotten: 0 }
    }

    /// Counts so many occurrences of a topic. Beyond [`MAX`] topics, a new one counts only in [`Series::take_forgotten`].
    pub fn record(&mut self, now: Duration, topic: Topic, times: u64, note: impl FnOnce() -> String) {
        if let Some(course) = self.topics.get_mut(&topic) {
            course.count += times;
            course.last = course.last.max(now);
        } else if self.topics.len() < MAX {
            let number = self.next;
            self.next = number.wrapping_add(1);
            let course = Course { number, note: note(), count: times, first: now, last: now, written: None };
            self.topics.insert(topic, course);
        } else {
            self.forgotten += times;
        }
    }

    /// The Events to write now, which count as written. New topics come before count updates; within each, the
    /// longest waiting comes first.
    pub fn due(&mut self, now: Duration) -> Vec<(Topic, Course)> {
        self.expire(now);
        let mut waiting: Vec<(&Topic, &mut Course)> =
            self.topics.iter_mut().filter(|(_, course)| course.is_due(now)).collect();
        waiting.sort_by_key(|(_, course)| (course.written, course.first));
        let budget = &mut self.budget;
        let affordable = waiting.into_iter().take_while(|_| budget.take(now));
        affordable
            .map(|(topic, course)| {
                let due = (topic.clone(), course.clone());
                course.written = Some((now, course.count));
                due
            })
            .collect()
    }

    /// How many occurrences no Event will ever show, since the last call.
    pub fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    fn expire(&mut self, now: Duration) {
        self.topics.retain(|_, course| {
            let remembered = now.saturating_sub(course.last) < MEMORY;
            if !remembered {
                self.forgotten += course.count - course.written.map_or(0, |(_, count)| count);
            }
            remembered
        });
    }
}

impl Course {
    fn is_due(&self, now: Duration) -> bool {
        let rested = |at| now.saturating_sub(at) >= REST;
        self.written.is_none_or(|(at, count)| self.count > count && rested(at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::topic::Subject;
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn topic(name: &str) -> Topic {
        let about = Subject { kind: "Service", name: ("shop".into(), name.into()), uid: None };
        Topic { about, case: None }
    }

    fn record(series: &mut Series, at: Duration, name: &str, times: usize) {
        for _ in 0..times {
            series.record(at, topic(name), 1, || format!("at {at:?}"));
        }
    }

    /// Name, count, and if it is repeated.
    fn due(series: &mut Series, at: Duration) -> Vec<(String, u64, bool)> {
        let due = series.due(at).into_iter();
        due.map(|(topic, course)| (topic.about.name.1.to_string(), course.count, course.written.is_some()))
            .collect()
    }

    #[test]
    fn a_thousand_packets_are_one_event_and_its_count_follows_once_a_minute() {
        let mut series = Series::new(7);
        record(&mut series, s(100), "web", 1);
        assert_eq!(due(&mut series, s(101)), [("web".into(), 1, false)]);
        record(&mut series, s(102), "web", 1000);
        for at in 102..161 {
            assert_eq!(due(&mut series, s(at)), []);
        }
        assert_eq!(due(&mut series, s(161)), [("web".into(), 1001, true)]);
        assert_eq!(due(&mut series, s(300)), [], "nothing new");
        record(&mut series, s(400), "web", 1);
        let (_, due) = series.due(s(400)).remove(0);
        assert_eq!((due.count, due.written, due.number), (1002, Some((s(161), 1001)), 7));
        assert_eq!((due.first, due.last, due.note.as_str()), (s(100), s(400), "at 100s"));
    }

    #[test]
    fn all_series_share_a_budget_and_new_events_come_before_count_updates() {
        let mut series = Series::new(0);
        for number in 0..14 {
            record(&mut series, s(100 + number), &format!("web-{number}"), 2);
        }
        let first = due(&mut series, s(120));
        assert_eq!((first.len(), &first[0].0), (10, &"web-0".to_owned()));
        record(&mut series, s(125), "web-0", 1);
        assert_eq!(due(&mut series, s(129)), []);
        assert_eq!(due(&mut series, s(130)), [("web-10".into(), 2, false)]);
        let later = due(&mut series, s(181));
        assert_eq!(later[2..], [("web-13".into(), 2, false), ("web-0".into(), 3, true)]);
    }

    #[test]
    fn a_series_that_was_quiet_for_an_hour_begins_anew() {
        let mut series = Series::new(0);
        record(&mut series, s(0), "web", 1);
        assert_eq!(due(&mut series, s(0)).len(), 1);
        record(&mut series, s(3599), "web", 1);
        assert_eq!(due(&mut series, s(3599)), [("web".into(), 2, true)]);
        assert_eq!(due(&mut series, s(7199)), []);
        record(&mut series, s(7199), "web", 1);
        assert_eq!(due(&mut series, s(7199)), [("web".into(), 1, false)]);
    }

    #[test]
    fn series_beyond_the_bound_or_an_hour_of_waiting_are_dropped_and_counted() {
        let mut series = Series::new(0);
        for number in 0..=MAX {
            record(&mut series, s(0), &format!("web-{number}"), 1);
        }
        assert_eq!(series.take_forgotten(), 1);
        assert_eq!(due(&mut series, s(0)).len(), 10);
        assert_eq!(due(&mut series, s(3600)), []);
        assert_eq!(series.take_forgotten(), MAX as u64 - 10);
        assert_eq!(series.take_forgotten(), 0);
    }
}
