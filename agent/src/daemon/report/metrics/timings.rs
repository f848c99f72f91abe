//! Measured durations: from an API event to the maps, from the start to the sync, from an IP's
//! release to its reuse.

use crate::shared::status::{Distribution, Figures, Latency};
use epguard_core::facts::{Change, Fact};
use std::time::SystemTime;
use tokio::time::Instant;

/// Upper ends of buckets in microseconds: 0.1 ms to 10 s, where 1 ms is ordinary.
const PROPAGATION: [u64; 11] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 10_000_000,
];

/// 50 ms to 1 minute: the endpoint slice controller and the API server take most of it.
const SLICE_PROPAGATION: [u64; 9] = [
    50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 15_000_000, 60_000_000,
];

/// 0.1 s to 10 minutes: packets go on that long to an IP whose pod has ended.
const REUSE_GAP: [u64; 7] = [
    100_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    600_000_000,
];

/// Clocks and durations since the agent's start.
#[derive(Debug)]
pub struct Timings {
    began: Instant,
    began_at: SystemTime,
    /// The facts that are not in the maps yet: when each arrived, and of a slice when its cause was
    /// written.
    waiting: Vec<(Instant, Option<SystemTime>)>,
    /// From receipt to map write.
    pub latency: Latency,
    /// The figures that are measured here; the rest is empty.
    pub figures: Figures,
}

impl Timings {
    /// Starts the clocks.
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            began_at: SystemTime::now(),
            waiting: Vec::new(),
            latency: Latency::default(),
            figures: Figures {
                propagation: Distribution::new(&PROPAGATION),
                slice_propagation: Distribution::new(&SLICE_PROPAGATION),
                reuse_gap: Distribution::new(&REUSE_GAP),
                ..Figures::default()
            },
        }
    }

    /// Records that a fact arrived. A change from before the agent's start did not wait for it, so
    /// it is not measured. A list does not show when its objects changed.
    pub fn received(&mut self, at: Instant, fact: &Fact) {
        let triggered = if let Fact::Slice(Change::Applied(slice)) = fact {
            slice.triggered
        } else {
            None
        };
        self.waiting
            .push((at, triggered.filter(|at| *at >= self.began_at)));
    }

    /// Records that everything that arrived is in the maps.
    pub fn written(&mut self) {
        let now = Instant::now();
        let wall = SystemTime::now();
        for (received, triggered) in self.waiting.drain(..) {
            let took = now.saturating_duration_since(received);
            self.latency.record(took);
            self.figures.propagation.record(took);
            if let Some(triggered) = triggered {
                // The clocks of two machines may differ: a change that seems to come before its
                // cause took no time.
                self.figures
                    .slice_propagation
                    .record(wall.duration_since(triggered).unwrap_or_default());
            }
        }
    }

    /// Records that every watch has shown a whole list.
    pub fn synced(&mut self) {
        if self.figures.synced_after_ms.is_none() {
            let ms = self.began.elapsed().as_millis();
            self.figures.synced_after_ms = Some(u64::try_from(ms).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::{Object as _, Slice};
    use std::time::Duration;

    fn slice(triggered: Option<SystemTime>) -> Slice {
        let slice = Slice::parse(br#"{"metadata": {"namespace": "shop", "name": "web-1"}}"#);
        Slice {
            triggered,
            ..slice.unwrap()
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
        let figures = &timings.figures;
        assert_eq!(
            (figures.slice_propagation.count, figures.propagation.count),
            (1, 4)
        );
        assert_eq!(timings.latency.figures().count, 4);
    }

    #[test]
    fn a_cause_in_the_future_of_this_clock_counts_as_zero() {
        let mut timings = Timings::start();
        let later = SystemTime::now() + Duration::from_hours(1);
        let fact = Fact::Slice(Change::Applied(slice(Some(later))));
        timings.received(Instant::now(), &fact);
        timings.written();
        let figures = &timings.figures.slice_propagation;
        assert_eq!(
            (figures.count, figures.sum_us, figures.buckets[0]),
            (1, 0, (50_000, 1))
        );
    }

    #[test]
    fn only_the_first_sync_is_timed() {
        let mut timings = Timings::start();
        assert_eq!(timings.figures.synced_after_ms, None);
        timings.synced();
        assert!(timings.figures.synced_after_ms.is_some());
        timings.figures.synced_after_ms = Some(u64::MAX);
        timings.synced();
        assert_eq!(timings.figures.synced_after_ms, Some(u64::MAX));
    }
}
