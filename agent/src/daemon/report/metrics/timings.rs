//! Measured durations: from an API event to the maps, from the start to the sync, from an IP's release to its reuse.

use crate::shared::status::{Figures, Latency, LatencyFigures};
use epguard_core::facts::{Change, Fact};
use std::time::{Duration, Instant, SystemTime};

/// Upper ends of buckets in microseconds: 0.1 ms to 10 s, where 1 ms is ordinary.
const PROPAGATION: [u64; 11] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 10_000_000];

/// 50 ms to 1 minute: the endpoint slice controller and the API server take most of it.
const SLICE_PROPAGATION: [u64; 9] =
    [50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 15_000_000, 60_000_000];

/// 0.1 s to 10 minutes: packets go on that long to an IP whose pod has ended.
const REUSE_GAP: [u64; 7] = [100_000, 1_000_000, 5_000_000, 15_000_000, 60_000_000, 300_000_000, 600_000_000];

/// Clocks and durations since the agent's start.
#[derive(Debug)]
pub struct Timings {
    began: Instant,
    began_at: SystemTime,
    synced_after: Option<Duration>,
    received: Vec<Instant>,
    triggered: Vec<SystemTime>,
    propagation: Latency,
    slice_propagation: Latency,
    reuse_gap: Latency,
}

impl Timings {
    /// Starts the clocks.
    #[must_use]
    pub fn start() -> Self {
        let longest = |bounds: &[u64]| Latency::up_to(bounds.last().copied().unwrap_or_default());
        Self {
            began: Instant::now(),
            began_at: SystemTime::now(),
            synced_after: None,
            received: Vec::new(),
            triggered: Vec::new(),
            propagation: Latency::default(),
            slice_propagation: longest(&SLICE_PROPAGATION),
            reuse_gap: longest(&REUSE_GAP),
        }
    }

    /// Records that a fact arrived. A change from before the agent's start did not wait for it, so it is not
    /// measured. A list does not show when its objects changed.
    pub fn received(&mut self, at: Instant, fact: &Fact) {
        self.received.push(at);
        if let Fact::Slice(Change::Applied(slice)) = fact {
            let triggered = slice.triggered.filter(|at| *at >= self.began_at);
            self.triggered.extend(triggered);
        }
    }

    /// Records that everything that arrived is in the maps.
    pub fn written(&mut self) {
        let (now, wall) = (Instant::now(), SystemTime::now());
        for received in self.received.drain(..) {
            self.propagation.record(now.saturating_duration_since(received));
        }
        for triggered in self.triggered.drain(..) {
            // The clocks of two machines may differ: a change that seems to come before its cause took no time.
            let took = wall.duration_since(triggered).unwrap_or_default();
            self.slice_propagation.record(took);
        }
    }

    /// Records that every watch has shown a whole list.
    pub fn synced(&mut self) {
        self.synced_after.get_or_insert_with(|| self.began.elapsed());
    }

    /// Records for how long IPs had no owner before they got another one.
    pub fn reused(&mut self, gaps: Vec<Duration>) {
        for gap in gaps {
            self.reuse_gap.record(gap);
        }
    }

    /// The latency from receipt to map write, in a few figures.
    #[must_use]
    pub fn latency(&self) -> LatencyFigures {
        self.propagation.figures()
    }

    /// The figures that are measured here; the rest is empty.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Figures {
            synced_after_ms: self.synced_after.map(ms),
            propagation: self.propagation.distribution(&PROPAGATION),
            slice_propagation: self.slice_propagation.distribution(&SLICE_PROPAGATION),
            reuse_gap: self.reuse_gap.distribution(&REUSE_GAP),
            ..Figures::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::Slice;

    fn slice(triggered: Option<SystemTime>) -> Slice {
        Slice {
            name: ("shop".into(), "web-1".into()),
            service: None,
            partial: false,
            foreign: false,
            endpoints: vec![],
            ports: vec![],
            triggered,
        }
    }

    #[test]
    fn a_slice_counts_from_its_trigger_unless_that_is_older_than_the_agent_or_it_came_in_a_list() {
        let mut timings = Timings::start();
        let (before, after) = (timings.began_at - Duration::from_secs(9), SystemTime::now());
        let applied = |triggered| Fact::Slice(Change::Applied(slice(triggered)));
        for fact in [
            applied(Some(after)),
            applied(Some(before)),
            applied(None),
            Fact::Slice(Change::Reset(vec![slice(Some(after))])),
        ] {
            timings.received(Instant::now(), &fact);
        }
        timings.written();
        let figures = timings.figures();
        assert_eq!((figures.slice_propagation.count, figures.propagation.count), (1, 4));
        assert_eq!(timings.latency().count, 4);
    }

    #[test]
    fn a_cause_in_the_future_of_this_clock_counts_as_zero() {
        let mut timings = Timings::start();
        let later = SystemTime::now() + Duration::from_hours(1);
        let fact = Fact::Slice(Change::Applied(slice(Some(later))));
        timings.received(Instant::now(), &fact);
        timings.written();
        let figures = timings.figures().slice_propagation;
        assert_eq!((figures.count, figures.sum_us, figures.buckets[0]), (1, 0, (50_000, 1)));
    }

    #[test]
    fn only_the_first_sync_is_timed() {
        let mut timings = Timings::start();
        assert_eq!(timings.figures().synced_after_ms, None);
        timings.synced();
        let first = timings.synced_after;
        timings.synced();
        assert_eq!(timings.synced_after, first);
    }
}
