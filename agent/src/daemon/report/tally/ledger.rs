//! Turns the kernel's counts of each denial into what was added since the last reading. Pure.

use crate::kernel::maps::Reading;
use epguard_common::{Count, DenialCount, DenialKey, Outcome};
use std::collections::HashMap;

/// The last reading of each denial.
#[derive(Debug, Default)]
pub struct Ledger(HashMap<DenialKey, DenialCount>);

impl Ledger {
    /// The packets since the last reading of this key, by outcome; outcomes without any are left out.
    pub fn added(&mut self, reading: &Reading) -> Vec<(Outcome, Count)> {
        let target = reading.denied.target;
        let before =
            if reading.ended { self.0.remove(&target) } else { self.0.insert(target, reading.count) };
        let before = before.unwrap_or_default().each();
        let now = reading.count.each();
        now.zip(before)
            .map(|((outcome, now), (_, before))| (outcome, now.since(before)))
            .filter(|(_, count)| count.packets > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::maps::Denied;
    use epguard_common::{Addr, Reason, Uid};

    fn reading(dropped: u64, ended: bool) -> Reading {
        let target = DenialKey::of_ip(Addr::v4([10, 244, 1, 10]));
        Reading {
            denied: Denied { target, reason: Reason::Terminated, dead: Uid::NONE, owner: Uid::NONE },
            count: DenialCount {
                dropped: Count { packets: dropped, bytes: dropped * 60, openings: dropped },
                ..DenialCount::default()
            },
            ended,
        }
    }

    fn added(ledger: &mut Ledger, dropped: u64, ended: bool) -> Vec<(Outcome, u64)> {
        let added = ledger.added(&reading(dropped, ended)).into_iter();
        added.map(|(outcome, count)| (outcome, count.packets)).collect()
    }

    #[test]
    fn each_packet_is_counted_once_and_a_new_entry_begins_at_zero() {
        let mut ledger = Ledger::default();
        assert_eq!(added(&mut ledger, 7, false), [(Outcome::Dropped, 7)]);
        assert_eq!(added(&mut ledger, 7, false), []);
        assert_eq!(added(&mut ledger, 9, true), [(Outcome::Dropped, 2)]);
        assert_eq!(added(&mut ledger, 9, false), [(Outcome::Dropped, 9)]);
    }
}
