//! Numbers of affected Services, as packets carry them.

use crate::facts::{Name, Text};
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
    /// Since when it is this Service's. Sockets outlive [`GRACE`]: a slot that one noted before meant another Service.
    pub since: Duration,
}

/// Slots in use or resting.
///
/// 1,015 of them have no bit among the low five, so that they can be carried beside Cilium ([`Slot::is_high`]). These
/// are given first, and fairly: a namespace takes one only while it holds fewer than are free.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    by_service: HashMap<Name, Given>,
    by_number: BTreeMap<u16, Name>,
    /// How many high slots each namespace holds.
    high: HashMap<Text, usize>,
    resting: HashMap<Name, Duration>,
    next: u16,
}

/// High slots: 0x8020, 0x8040, ... 0xfee0. Those from 0xff00 on are left out: after another use of `skb->cb`, a field
/// can hold the upper bits of a kernel pointer (0xff11 and up with five levels of pages, 0xffff otherwise).
const HIGH: u16 = 1_015;
const HIGH_STEP: u16 = 0x20;
const END: u16 = 0xff00;

impl Slots {
    /// Gives slots from some number on, which the agent draws at random: a foreign filter at epguard's hooks may always
    /// set the same class id in the upper half. That id then equals a slot in use only by chance.
    #[must_use]
    pub fn starting_at(next: u16) -> Self {
        Self {
            next,
            ..Self::default()
        }
    }

    /// The Service's slot, a new one if it has none; `None` if all are taken.
    pub fn take(&mut self, now: Duration, service: &Name) -> Option<Given> {
        self.resting.remove(service);
        if let Some(given) = self.by_service.get(service) {
            return Some(*given);
        }
        let number = self.free_high(&service.0).or_else(|| self.free_low())?;
        self.next = self.next.wrapping_add(1);
        let slot = Slot { number };
        self.insert(Given { slot, since: now }, service);
        self.by_service.get(service).copied()
    }

    /// The Service's slot, if it has one.
    #[must_use]
    pub fn get(&self, service: &Name) -> Option<Given> {
        self.by_service.get(service).copied()
    }

    /// Services whose slot is no high one.
    #[must_use]
    pub fn without_room_beside_low_bits(&self) -> usize {
        self.by_service.len() - self.high.values().sum::<usize>()
    }

    fn free_high(&self, namespace: &str) -> Option<u16> {
        let free = usize::from(HIGH) - self.high.values().sum::<usize>();
        let held = self.high.get(namespace).copied().unwrap_or_default();
        if held >= free {
            return None;
        }
        let number = |step| Slot::FIRST + (1 + (self.next % HIGH + step) % HIGH) * HIGH_STEP;
        (0..HIGH).map(number).find(|number| self.is_free(*number))
    }

    fn free_low(&self) -> Option<u16> {
        let range = END - Slot::FIRST;
        let number = |step| Slot::FIRST + (self.next % range + step) % range;
        let is_low = |number: &u16| !number.is_multiple_of(HIGH_STEP);
        (0..range)
            .map(number)
            .filter(is_low)
            .find(|number| self.is_free(*number))
    }

    fn is_free(&self, number: u16) -> bool {
        !self.by_number.contains_key(&number)
    }

    fn insert(&mut self, given: Given, service: &Name) {
        if given.slot.is_high() {
            *self.high.entry(service.0.clone()).or_default() += 1;
        }
        self.by_number.insert(given.slot.number, service.clone());
        self.by_service.insert(service.clone(), given);
    }

    /// Keeps the slot that the Service had before this process. A number that is never given is not kept: the Service
    /// gets another one.
    pub fn keep(&mut self, number: u16, service: &Name, since: Duration) {
        let is_given = (Slot::FIRST + 1..END).contains(&number);
        if is_given && !self.by_service.contains_key(service) {
            let slot = Slot { number };
            self.insert(Given { slot, since }, service);
        }
    }

    /// Keeps the slot of a Service that is gone: packets may still carry it.
    pub fn keep_empty(&mut self, number: u16, now: Duration) {
        let nobody = (Text::default(), Text::from(number.to_string()));
        self.keep(number, &nobody, now);
        self.rest(&nobody, now);
    }

    /// Lets the slot of a Service without denials rest for [`GRACE`] before another Service may get it.
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
            let Some(given) = self.by_service.remove(&service) else {
                continue;
            };
            self.by_number.remove(&given.slot.number);
            if given.slot.is_high()
                && let Some(held) = self.high.get_mut(&service.0)
            {
                *held -= 1;
                self.high.retain(|_, held| *held > 0);
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
    fn a_reused_slot_has_the_time_of_its_new_service() {
        let mut slots = Slots::default();
        slots.keep(0x8001, &name("a"), Duration::from_secs(3));
        let since = |slots: &mut Slots, service| slots.take(GRACE, &name(service)).unwrap().since;
        assert_eq!(since(&mut slots, "a"), Duration::from_secs(3));
        slots.rest(&name("a"), Duration::ZERO);
        slots.expire(GRACE);
        assert_eq!(since(&mut slots, "b"), GRACE);
    }

    #[test]
    fn a_number_outside_of_the_slot_range_is_not_restored() {
        for (number, kept) in [(0x8000, false), (0x8001, true), (0xfeff, true), (0xff00, false)] {
            let mut slots = Slots::default();
            slots.keep(number, &name("a"), Duration::ZERO);
            assert_eq!(take(&mut slots, "a").number == number, kept, "{number:#x}");
        }
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
    fn all_slots_lie_in_the_upper_half_and_differ_for_every_start_number() {
        for start in [0, 1, 32_766, 32_767, u16::MAX] {
            let mut slots = Slots::starting_at(start);
            let numbers = ["a", "b", "c"].map(|service| take(&mut slots, service).number);
            assert!(numbers.iter().all(|number| *number > Slot::FIRST), "{numbers:?}");
            assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        }
    }

    #[test]
    fn slots_beside_low_bits_are_taken_first_and_one_namespace_gets_at_most_half_of_them() {
        let mut slots = Slots::starting_at(700);
        let mut take = |namespace: &str, service: usize| {
            let name = (namespace.into(), service.to_string().into());
            slots.take(Duration::ZERO, &name).unwrap().slot.is_high()
        };
        let greedy = (0..2_000).filter(|service| take("greedy", *service)).count();
        assert_eq!(greedy, 508);
        let second = (0..2_000).filter(|service| take("second", *service)).count();
        assert_eq!(second, 254);
        assert!(take("modest", 0));
        assert_eq!(slots.without_room_beside_low_bits(), 4_000 - 508 - 254);
    }

    #[test]
    fn all_slots_can_be_taken_and_none_equals_the_upper_bits_of_a_kernel_pointer() {
        let mut slots = Slots::starting_at(u16::MAX);
        let numbers = (0..).map_while(|service: u32| {
            let name = ("ns".into(), service.to_string().into());
            Some(slots.take(Duration::ZERO, &name)?.slot.number)
        });
        let numbers: std::collections::BTreeSet<u16> = numbers.collect();
        // One namespace gets half of the high ones.
        assert_eq!(numbers.len(), 0x7f00 / 32 * 31 + 508);
        assert!(numbers.iter().all(|number| (0x8001..0xff00).contains(number)));
    }

    #[test]
    fn a_namespace_that_returns_slots_can_take_new_ones() {
        let mut slots = Slots::default();
        for service in 0..511 {
            slots.take(Duration::ZERO, &("ns".into(), service.to_string().into()));
        }
        for service in 0..511 {
            slots.rest(&("ns".into(), service.to_string().into()), Duration::ZERO);
        }
        slots.expire(GRACE);
        assert!(slots.take(GRACE, &name("later")).unwrap().slot.is_high());
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
