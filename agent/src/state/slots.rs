//! Numbers of affected Services, as packets carry them.

use crate::facts::Name;
use epguard_common::Slot;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How long a slot rests after its Service's last denial: packets that carry it must have left first.
pub const GRACE: Duration = Duration::from_mins(1);

/// A Service's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// Its number.
    pub slot: Slot,
    /// Since when it is this Service's. Sockets outlive any grace: what one noted before meant another Service.
    pub since: Duration,
}

/// Slots in use or resting.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    by_service: HashMap<Name, Given>,
    by_number: BTreeMap<u16, Name>,
    resting: HashMap<Name, Duration>,
    next: u16,
}

impl Slots {
    /// Slots from some number on. The agent draws it: a foreign filter on our hooks that sets a class id in the upper
    /// half, always the same, then means one of our slots only by a chance of one in 32,767 for each slot in use.
    #[must_use]
    pub fn starting_at(next: u16) -> Self {
        Self {
            next,
            ..Self::default()
        }
    }

    /// The Service's slot, a new one if it has none; `None` if all 32,767 are taken.
    pub fn take(&mut self, now: Duration, service: &Name) -> Option<Given> {
        self.resting.remove(service);
        if let Some(given) = self.by_service.get(service) {
            return Some(*given);
        }
        let range = u16::MAX - Slot::FIRST;
        let free = (0..range)
            .map(|step| Slot::FIRST + 1 + (self.next % range + step) % range)
            .find(|number| !self.by_number.contains_key(number))?;
        self.next = (free - Slot::FIRST) % range;
        let given = Given {
            slot: Slot { number: free },
            since: now,
        };
        self.by_service.insert(service.clone(), given);
        self.by_number.insert(free, service.clone());
        Some(given)
    }

    /// The Service had this slot before this process.
    pub fn keep(&mut self, number: u16, service: &Name, since: Duration) {
        if number > Slot::FIRST && !self.by_service.contains_key(service) {
            let slot = Slot { number };
            self.by_service.insert(service.clone(), Given { slot, since });
            self.by_number.insert(number, service.clone());
        }
    }

    /// Some Service that is gone had this slot: packets may still carry it.
    pub fn keep_empty(&mut self, number: u16, now: Duration) {
        let nobody = (String::new(), number.to_string());
        self.keep(number, &nobody, now);
        self.rest(&nobody, now);
    }

    /// The Service has no denial any more: its slot rests for [`GRACE`] before another Service may get it.
    pub fn rest(&mut self, service: &Name, now: Duration) {
        if self.by_service.contains_key(service) {
            self.resting.entry(service.clone()).or_insert(now);
        }
    }

    /// Frees slots that have rested.
    pub fn expire(&mut self, now: Duration) {
        let rested = self
            .resting
            .iter()
            .filter(|(_, since)| now.saturating_sub(**since) >= GRACE);
        for service in rested.map(|(service, _)| service.clone()).collect::<Vec<_>>() {
            self.resting.remove(&service);
            if let Some(given) = self.by_service.remove(&service) {
                self.by_number.remove(&given.slot.number);
            }
        }
    }

    /// The Service behind a slot.
    #[must_use]
    pub fn service(&self, slot: Slot) -> Option<&Name> {
        self.by_number.get(&slot.number)
    }

    /// All slots and their Services.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Name)> {
        self.by_number.iter().map(|(number, name)| (*number, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        ("ns".into(), text.into())
    }

    fn take(slots: &mut Slots, service: &str) -> Slot {
        slots.take(Duration::ZERO, &name(service)).unwrap().slot
    }

    #[test]
    fn a_slot_that_is_handed_on_says_since_when() {
        let mut slots = Slots::default();
        slots.keep(0x8001, &name("a"), Duration::from_secs(3));
        let since = |slots: &mut Slots, service| slots.take(GRACE, &name(service)).unwrap().since;
        assert_eq!(since(&mut slots, "a"), Duration::from_secs(3));
        slots.rest(&name("a"), Duration::ZERO);
        slots.expire(GRACE);
        assert_eq!(since(&mut slots, "b"), GRACE);
    }

    #[test]
    fn a_slot_lies_in_the_upper_half_and_stays_with_its_service() {
        let mut slots = Slots::default();
        let slot = take(&mut slots, "a");
        assert!(slot.number > Slot::FIRST);
        assert_eq!(take(&mut slots, "a"), slot);
        assert_eq!(slots.service(slot), Some(&name("a")));
    }

    #[test]
    fn wherever_slots_start_they_lie_in_the_upper_half_and_differ() {
        for start in [0, 1, 32_766, 32_767, u16::MAX] {
            let mut slots = Slots::starting_at(start);
            let numbers = ["a", "b", "c"].map(|service| take(&mut slots, service).number);
            assert!(numbers.iter().all(|number| *number > Slot::FIRST), "{numbers:?}");
            assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        }
    }

    #[test]
    fn a_slot_is_not_reused_before_its_grace_period_is_over() {
        let mut slots = Slots::default();
        let slot = take(&mut slots, "a");
        slots.rest(&name("a"), Duration::ZERO);
        slots.expire(GRACE.checked_sub(Duration::from_millis(1)).unwrap());
        assert_eq!(slots.service(slot), Some(&name("a")));
        slots.expire(GRACE);
        assert_eq!(slots.service(slot), None);
        assert_ne!(take(&mut slots, "b"), slot, "the next one goes to a fresh number");
    }

    #[test]
    fn a_service_that_is_affected_again_keeps_its_slot() {
        let mut slots = Slots::default();
        let slot = take(&mut slots, "a");
        slots.rest(&name("a"), Duration::ZERO);
        assert_eq!(take(&mut slots, "a"), slot);
        slots.expire(GRACE * 2);
        assert_eq!(slots.service(slot), Some(&name("a")));
    }
}
