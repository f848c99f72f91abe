//! COUNTERS: packets that the programs count, by reason and outcome.

use crate::{Outcome, Reason};

/// Outcomes that COUNTERS has room for, for each reason.
const OUTCOMES: u32 = 32;

/// Reasons that COUNTERS has room for.
const REASONS: u32 = 8;

/// Elements of COUNTERS.
pub const COUNTERS: usize = (REASONS * OUTCOMES) as usize;

/// The element of COUNTERS for a reason and an outcome: `reason * 32 + outcome`, by their numbers.
#[inline]
pub const fn counter(reason: Reason, outcome: Outcome) -> u32 {
    reason as u32 * OUTCOMES + outcome as u32
}

/// The outcome that an element of COUNTERS counts; `None` for an element without one.
#[inline]
pub const fn counted_outcome(counter: u32) -> Option<Outcome> {
    Outcome::from_number(counter % OUTCOMES)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_reason_and_outcome_has_an_element_of_its_own() {
        let pairs = || {
            Reason::ALL
                .into_iter()
                .flat_map(|r| Outcome::ALL.map(|o| (r, o)))
        };
        let elements: BTreeSet<u32> = pairs()
            .map(|(reason, outcome)| counter(reason, outcome))
            .collect();
        assert_eq!(elements.len(), pairs().count());
        assert!(
            elements
                .iter()
                .all(|element| (*element as usize) < COUNTERS)
        );
        assert!(Outcome::ALL.len() <= OUTCOMES as usize && Reason::ALL.len() <= REASONS as usize);
        assert_eq!(counter(Reason::Reused, Outcome::Observed), 65);
        for (reason, outcome) in pairs() {
            assert_eq!(counted_outcome(counter(reason, outcome)), Some(outcome));
        }
    }
}
