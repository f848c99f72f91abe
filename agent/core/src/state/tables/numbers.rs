//! Numbers of Services with denials: the keys of DENIED.

use crate::facts::ObjectName;
use epguard_common::ServiceNumber;
use std::collections::{BTreeSet, HashMap};

/// Services without denials whose number is kept, for reports.
const IDLE: usize = 1_024;

/// The numbers of Services that have, or lately had, denials. No number is given twice while the
/// maps exist.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    by_service: HashMap<ObjectName, ServiceNumber>,
    by_number: HashMap<ServiceNumber, ObjectName>,
    idle: BTreeSet<ServiceNumber>,
    last: u32,
}

impl Numbers {
    /// Gives numbers after `last`, the greatest one that the maps have seen.
    pub fn after(last: u32) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    /// The Service's number, a new one if it has none; `None` once all 32 bits are used up.
    pub fn take(&mut self, service: &ObjectName) -> Option<ServiceNumber> {
        if let Some(known) = self.by_service.get(service) {
            self.idle.remove(known);
            return Some(*known);
        }
        self.last = self.last.checked_add(1)?;
        let number = ServiceNumber { number: self.last };
        self.keep(number, service);
        Some(number)
    }

    /// Keeps the number that the Service had before this process.
    pub fn keep(&mut self, number: ServiceNumber, service: &ObjectName) {
        if number.is_some() && !self.by_service.contains_key(service) {
            self.last = self.last.max(number.number);
            self.by_service.insert(service.clone(), number);
            self.by_number.insert(number, service.clone());
        }
    }

    /// Notes that the Service has no denials any more. The oldest numbers of such Services are
    /// dropped.
    pub fn release(&mut self, service: &ObjectName) {
        self.idle.extend(self.by_service.get(service));
        while self.idle.len() > IDLE
            && let Some(oldest) = self.idle.pop_first()
        {
            let service = self.by_number.remove(&oldest);
            service.and_then(|service| self.by_service.remove(&service));
        }
    }

    /// The Service's number, if it has one.
    pub fn get(&self, service: &ObjectName) -> Option<ServiceNumber> {
        self.by_service.get(service).copied()
    }

    /// The Service with this number.
    pub fn service(&self, number: ServiceNumber) -> Option<&ObjectName> {
        self.by_number.get(&number)
    }

    /// All Services with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectName, ServiceNumber)> {
        self.by_service
            .iter()
            .map(|(service, number)| (service, *number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ObjectName {
        ObjectName::new("ns", text)
    }

    fn take(numbers: &mut Numbers, service: &str) -> u32 {
        numbers.take(&name(service)).unwrap().number
    }

    #[test]
    fn a_service_keeps_its_number_and_no_other_service_gets_it() {
        let mut numbers = Numbers::after(7);
        assert_eq!((take(&mut numbers, "a"), take(&mut numbers, "b")), (8, 9));
        numbers.release(&name("a"));
        assert_eq!((take(&mut numbers, "c"), take(&mut numbers, "a")), (10, 8));
        assert_eq!(
            numbers.service(ServiceNumber { number: 9 }),
            Some(&name("b"))
        );
        numbers.keep(ServiceNumber { number: 15 }, &name("d"));
        assert_eq!(
            (take(&mut numbers, "d"), take(&mut numbers, "e")),
            (15, 16),
            "from before this process"
        );
    }

    #[test]
    fn only_the_oldest_services_without_denials_lose_their_number() {
        let mut numbers = Numbers::default();
        take(&mut numbers, "denied");
        for service in 0..=IDLE {
            let service = service.to_string();
            take(&mut numbers, &service);
            numbers.release(&name(&service));
        }
        assert_eq!(numbers.get(&name("0")), None);
        assert!(numbers.get(&name("1")).is_some() && numbers.get(&name("denied")).is_some());
        assert_eq!(numbers.iter().count(), IDLE + 1);
        assert!(take(&mut numbers, "0") > 1 + u32::try_from(IDLE).unwrap());
    }

    #[test]
    fn after_the_greatest_number_none_is_given() {
        let mut numbers = Numbers::after(u32::MAX - 1);
        assert_eq!(take(&mut numbers, "a"), u32::MAX);
        assert_eq!(numbers.take(&name("b")), None);
    }
}
