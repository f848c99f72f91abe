//! Events of the Kubernetes API about denied flows and breaker alarms. Best effort: the log has all of them.
//!
//! ```text
//! denied packets, alarms -> event (its text and form), series (when to write it) -> writer (a task of its own)
//! ```

mod event;
mod series;
mod writer;

use crate::shared::drops::Kind;
use clap::ValueEnum;
use epguard_common::Uid;
use epguard_core::bucket::Bucket;
use epguard_core::facts::Name;
use epguard_core::state::{State, Trip};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use series::{Entry, Series};
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
    /// Services with pending denials
    Breaker,
    /// Also denied flows, and in observe flows that would be denied: on the Service, and on the pod that has the IP now
    All,
}

/// An object of the API that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// `Service` or `Pod`.
    pub kind: &'static str,
    /// Namespace and name.
    pub name: Name,
    /// UID of the object. Without it `kubectl describe` does not find the Event.
    pub uid: Option<Uid>,
}

impl Subject {
    /// A Service, with its UID if that is known.
    pub fn service(state: &State, name: Name) -> Self {
        Self { kind: "Service", uid: state.cluster().service(&name).map(|service| service.uid), name }
    }
}

/// Queues Events without ever blocking. Times are `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub struct Announcer {
    what: Announce,
    node: String,
    budget: Bucket,
    series: Series,
    /// Once it is closed, no Event is queued any more. While it is full, Events wait in their series.
    queue: mpsc::Sender<Entry>,
}

impl Announcer {
    /// Starts the task that writes Events, unless `what` selects none. The task ends with the announcer, and pauses
    /// while the API server forbids it.
    pub fn start(client: Client, node: String, what: Announce) -> Self {
        let (queue, entries) = mpsc::channel(BURST as usize);
        if what != Announce::None {
            tokio::spawn(writer::write(client, entries));
        }
        Self { what, node, budget: Bucket::new(INTERVAL, BURST), series: Series::default(), queue }
    }

    /// Counts an alarm: the breaker holds denials of this Service.
    pub fn tripped(&mut self, now: Duration, about: Subject, trip: &Trip) {
        if !self.queue.is_closed() {
            let event = event::of_alarm(&about, trip, &self.node);
            self.series.count(now, about, "alarm", event, 1);
        }
    }

    /// True if denied packets become Events.
    pub fn reports_denials(&self) -> bool {
        self.what == Announce::All && !self.queue.is_closed()
    }

    /// Counts denied packets of a kind. The port makes no difference: one pod that has ended is one Event.
    pub fn denied(&mut self, last: Duration, about: Subject, kind: &Kind, packets: u64) {
        let event = event::of_denial(&about, kind, &self.node);
        let topic = event.note.clone().unwrap_or_default();
        self.series.count(last, about, &topic, event, packets);
    }

    /// Queues the Events that are due.
    pub fn tick(&mut self, now: Duration) {
        while let Ok(place) = self.queue.try_reserve() {
            let next = self.series.next(now, Timestamp::now(), || self.budget.take(now));
            let Some(entry) = next else { return };
            place.send(entry);
        }
    }
}
