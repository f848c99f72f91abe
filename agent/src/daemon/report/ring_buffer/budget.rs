//! Limits how many of the programs' reports the agent takes in, for any number of suspects. Pure:
//! callers pass the time.
//!
//! The kernel reports at most 100 packets a second for each suspect, so the total grows with the
//! number of suspects.

use epguard_common::{Addr, Event, Outcome};
use epguard_core::bucket::Bucket;
use std::collections::HashMap;
use std::time::Duration;

/// Reports a second that are taken in on average.
const PER_SECOND: u32 = 2_000;

/// Reports that are taken in at once after a quiet time.
const BURST: u32 = 2_000;

/// Most reports of one turn of the loop, which then serves everything else.
const PER_TURN: usize = 256;

/// The budget of reports that the agent takes in.
#[derive(Debug)]
pub struct Budget {
    bucket: Bucket,
    skipped: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bucket: Bucket::new(Duration::from_secs(1) / PER_SECOND, BURST),
            skipped: 0,
        }
    }
}

impl Budget {
    /// Removes from `events` what is over the budget, and keeps their order: all lifts stay, and a
    /// fair share for each suspect.
    pub fn admit(&mut self, now: Duration, events: &mut Vec<Event>) {
        let wanted = events.iter().filter(|event| !is_lift(event)).count();
        let mut allowed = 0;
        while allowed < wanted.min(PER_TURN) && self.bucket.take(now) {
            allowed += 1;
        }
        if allowed == wanted {
            return;
        }
        self.skipped += (wanted - allowed) as u64;
        let shares = shares(events, allowed);
        let mut shares = shares.iter();
        events.retain(|_| shares.next().is_some_and(|kept| *kept));
    }

    /// How many reports were not taken in, since the start.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// Selects the events to keep: all lifts and `allowed` others, each suspect's first before any
/// suspect's second.
fn shares(events: &[Event], allowed: usize) -> Vec<bool> {
    let mut seen: HashMap<Addr, usize> = HashMap::new();
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for (index, event) in events
        .iter()
        .enumerate()
        .filter(|(_, event)| !is_lift(event))
    {
        let number = seen.entry(event.dst).or_default();
        turns.push((*number, index));
        *number += 1;
    }
    turns.sort_unstable();
    let mut kept: Vec<bool> = events.iter().map(is_lift).collect();
    for (_, index) in turns.into_iter().take(allowed) {
        kept[index] = true;
    }
    kept
}

const fn is_lift(event: &Event) -> bool {
    event.outcome == Outcome::Lifted as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn denied(suspect: u8) -> Event {
        Event {
            dst: Addr::v4([10, 244, 1, suspect]),
            outcome: Outcome::Dropped as u32,
            ..Event::default()
        }
    }

    fn suspects(events: &[Event]) -> Vec<u8> {
        events.iter().map(|event| event.dst.octets[15]).collect()
    }

    #[test]
    fn one_turn_takes_in_few_reports_and_all_lifts_and_the_rest_is_counted() {
        let lift = Event {
            outcome: Outcome::Lifted as u32,
            ..denied(7)
        };
        for (sentence, mut events, taken, skipped) in [
            ("within the budget", (0..200).map(denied).collect(), 200, 0),
            ("beyond it", vec![denied(1); 2_000], 256, 1_744),
            (
                "lifts are never skipped",
                [vec![denied(1); 1_000], vec![lift; 300]].concat(),
                556,
                744,
            ),
        ] {
            let mut budget = Budget::default();
            let lifts = |events: &[Event]| events.iter().filter(|event| is_lift(event)).count();
            let before = lifts(&events);
            budget.admit(NOW, &mut events);
            assert_eq!(
                (events.len(), budget.skipped(), lifts(&events)),
                (taken, skipped, before),
                "{sentence}"
            );
        }
    }

    #[test]
    fn reports_per_second_stay_within_the_nodes_limit_for_any_number_of_suspects() {
        let mut budget = Budget::default();
        let mut taken = 0;
        for turn in 0..1_000 {
            let mut events: Vec<Event> = (0..=255).cycle().take(2_048).map(denied).collect();
            budget.admit(NOW + Duration::from_millis(turn), &mut events);
            taken += events.len();
        }
        assert_eq!(taken, 2_000 + 1_998);
        assert_eq!(budget.skipped(), 1_000 * 2_048 - 3_998);
    }

    #[test]
    fn a_flood_to_one_suspect_leaves_room_for_the_reports_of_others() {
        let mut budget = Budget::default();
        let mut events = vec![denied(1); 1_000];
        events.extend([denied(2), denied(3), denied(2)]);
        budget.admit(NOW, &mut events);
        let seen = suspects(&events);
        assert_eq!(seen[seen.len() - 3..], [2, 3, 2]);
        assert_eq!(seen.len(), 256);
    }
}
