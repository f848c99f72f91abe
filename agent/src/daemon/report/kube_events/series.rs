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

/// A topic and its Event.
#[derive(Debug)]
struct Course {
    event: Due,
    /// When the Event was written last, and the count that it showed.
    written: Option<(Duration, u64)>,
}

/// The occurrences of a topic: an Event to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The topic of the Event.
    pub topic: Topic,
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
    /// It was written before, with a lower count.
    pub repeated: bool,
}

impl Series {
    /// Without topics. Numbers begin with `first`: the caller draws it at random, so that those of two agents differ.
    pub fn new(first: u64) -> Self {
        Self { topics: BTreeMap::new(), budget: Bucket::new(INTERVAL, BURST), next: first, forgotten: 0 }
    }

    /// Counts so many occurrences of a topic. Beyond [`MAX`] topics, a new one counts only in [`Series::take_forgotten`].
    pub fn record(&mut self, now: Duration, topic: Topic, times: u64, note: impl FnOnce() -> String) {
        if let Some(Course { event, .. }) = self.topics.get_mut(&topic) {
            event.count += times;
            event.last = event.last.max(now);
        } else if self.topics.len() < MAX {
            let event = Due {
                topic: topic.clone(),
                number: self.next,
                note: note(),
                count: times,
                first: now,
                last: now,
                repeated: false,
            };
            self.next = self.next.wrapping_add(1);
            self.topics.insert(topic, Course { event, written: None });
        } else {
            self.forgotten += times;
        }
    }

    /// The Events to write now, which count as written. New topics come before count updates; within each, the
    /// longest waiting comes first.
    pub fn due(&mut self, now: Duration) -> Vec<Due> {
        self.expire(now);
        let mut waiting: Vec<&mut Course> = self.topics.values_mut().collect();
        waiting.retain(|course| course.is_due(now));
        waiting.sort_by_key(|course| (course.written, course.event.first));
        let budget = &mut self.budget;
        let affordable = waiting.into_iter().take_while(|_| budget.take(now));
        affordable
            .map(|Course { event, written }| {
                event.repeated = written.replace((now, event.count)).is_some();
                event.clone()
            })
            .collect()
    }

    /// How many occurrences no Event will ever show, since the last call.
    pub fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    fn expire(&mut self, now: Duration) {
        self.topics.retain(|_, course| {
            let remembered = now.saturating_sub(course.event.last) < MEMORY;
            if !remembered {
                let written = course.written.map_or(0, |(_, count)| count);
                self.forgotten += course.event.count - written;
            }
            remembered
        });
    }
}

impl Course {
    fn is_due(&self, now: Duration) -> bool {
        let rested = |at| now.saturating_sub(at) >= REST;
        self.written.is_none_or(|(at, count)| self.event.count > count && rested(at))
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
        let kind = "Service";
        let name = ("shop".into(), name.into());
        let uid = None;
        Topic::tripped(Subject { kind, name, uid })
    }

    fn record(series: &mut Series, at: Duration, name: &str, times: usize) {
        for _ in 0..times {
            series.record(at, topic(name), 1, || format!("at {at:?}"));
        }
    }

    /// Name, count, and if it is repeated.
    fn due(series: &mut Series, at: Duration) -> Vec<(String, u64, bool)> {
        let due = series.due(at).into_iter();
        due.map(|due| (due.topic.about.name.1.to_string(), due.count, due.repeated)).collect()
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
        let due = series.due(s(400)).remove(0);
        assert_eq!((due.count, due.repeated, due.number), (1002, true, 7));
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
