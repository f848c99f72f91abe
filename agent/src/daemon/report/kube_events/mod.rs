//! Events of the Kubernetes API about denied flows and breaker alarms. Best effort: the log has all of them.
//!
//! ```text
//! denied packets, alarms -> topic (about which object) -> series (when, pure) -> event -> writer (a task of its own)
//! ```

mod event;
mod series;
mod topic;
mod writer;

pub use topic::{Case, Denial, Subject};

use clap::ValueEnum;
use epguard_core::state::Trip;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use series::Series;
use std::time::Duration;
use tokio::sync::mpsc;
use topic::Topic;
use writer::Entry;

/// Events waiting for the API server; more than that are dropped.
const BACKLOG: usize = 64;

/// At most one log line about dropped Events in this time.
const QUIET: Duration = Duration::from_mins(1);

/// The Events that the agent writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Announce {
    /// Nothing
    None,
    /// Services with pending denials
    Breaker,
    /// Also denied flows, and in observe flows that would be denied: on the Service, and on the pod that has the IP now
    All,
}

/// Queues Events without ever blocking. Times are `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub struct Announcer {
    what: Announce,
    node: String,
    series: Series,
    /// Once it is closed, no Event is queued any more.
    queue: mpsc::Sender<Entry>,
    dropped: u64,
    warned: Option<Duration>,
}

impl Announcer {
    /// Starts the task that writes Events, unless `what` selects none. The task ends with the announcer, and pauses
    /// while the API server forbids it.
    #[must_use]
    pub fn start(client: Client, node: String, what: Announce) -> Self {
        let (queue, entries) = mpsc::channel(BACKLOG);
        if what != Announce::None {
            tokio::spawn(writer::write(client, entries));
        }
        Self { what, node, series: Series::new(fastrand::u64(..)), queue, dropped: 0, warned: None }
    }

    /// Queues an alarm: the breaker holds denials of this Service.
    pub fn tripped(&mut self, now: Duration, service: Subject, trip: &Trip) {
        if !self.queue.is_closed() {
            let topic = Topic { about: service, case: None };
            self.series.record(now, topic, 1, || topic::alarm(trip));
        }
    }

    /// True if denied packets become Events.
    #[must_use]
    pub fn reports_denials(&self) -> bool {
        self.what == Announce::All && !self.queue.is_closed()
    }

    /// Counts packets that were denied, or would have been. `last` is the time of the last one.
    pub fn denied(&mut self, last: Duration, denial: &Denial, packets: u64) {
        if !self.reports_denials() {
            return;
        }
        for topic in denial.topics() {
            self.series.record(last, topic, packets, || denial.note(&self.node));
        }
    }

    /// Queues the Events that are due.
    pub fn tick(&mut self, now: Duration) {
        if self.queue.is_closed() {
            return;
        }
        for (topic, course) in self.series.due(now) {
            let event = event::event(&topic, &course, &self.node, now, Timestamp::now());
            let repeated = course.written.is_some();
            self.dropped += u64::from(self.queue.try_send(Entry { event, repeated }).is_err());
        }
        self.dropped += self.series.take_forgotten();
        if self.dropped > 0 && self.warned.is_none_or(|warned| now.saturating_sub(warned) >= QUIET) {
            tracing::warn!(
                dropped = self.dropped,
                "Events were dropped: there are more than the limit, or the API server accepts none; `epguard drops` \
                 shows all denials"
            );
            (self.dropped, self.warned) = (0, Some(now));
        }
    }
}
