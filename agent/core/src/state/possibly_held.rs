//! The IPs at which nothing is denied because one of the Service's own pods may hold them without
//! showing it, and since when.

use crate::facts::ObjectName;
use epguard_common::Addr;
use std::collections::BTreeMap;
use std::time::Duration;

/// Such IPs by Service.
#[derive(Debug, Clone, Default)]
pub struct PossiblyHeld(BTreeMap<ObjectName, BTreeMap<Addr, Duration>>);

impl PossiblyHeld {
    /// Notes whether an IP of a Service may be held. It has been since the first of a row of such
    /// notes.
    pub fn set(&mut self, now: Duration, service: &ObjectName, ip: Addr, is_held: bool) {
        if is_held {
            self.0
                .entry(service.clone())
                .or_default()
                .entry(ip)
                .or_insert(now);
        } else if let Some(ips) = self.0.get_mut(service) {
            ips.remove(&ip);
            if ips.is_empty() {
                self.0.remove(service);
            }
        }
    }

    /// How many Services have such IPs.
    pub fn services(&self) -> usize {
        self.0.len()
    }

    /// True if the Service has some.
    pub fn has(&self, service: &ObjectName) -> bool {
        self.0.contains_key(service)
    }

    /// Since when the first of them is one.
    pub fn oldest(&self) -> Option<Duration> {
        self.0.values().flat_map(BTreeMap::values).min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ip_is_possibly_held_since_the_first_note_until_one_says_that_it_is_not() {
        let mut held = PossiblyHeld::default();
        let (web, api): (ObjectName, ObjectName) = (
            ObjectName::new("shop", "web"),
            ObjectName::new("shop", "api"),
        );
        let (at, ip) = (Duration::from_secs, Addr::v4([10, 244, 1, 10]));
        held.set(at(1), &web, ip, true);
        held.set(at(2), &web, ip, true);
        held.set(at(2), &api, ip, true);
        assert_eq!((held.services(), held.oldest()), (2, Some(at(1))));
        held.set(at(3), &web, ip, false);
        assert_eq!(
            (held.services(), held.oldest(), held.has(&web)),
            (1, Some(at(2)), false)
        );
        held.set(at(4), &api, ip, false);
        assert_eq!((held.services(), held.oldest()), (0, None));
    }
}
