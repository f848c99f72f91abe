//! The memory of endpoints that no slice lists any more: how long it keeps them, and how many.

use super::{Endpoint, EndpointIndex, Target};
use crate::facts::ObjectName;
use crate::state::index::Moment;
use crate::state::index::changed::Changed;
use crate::state::index::former::MEMORY;
use std::collections::BTreeSet;
use std::time::Duration;

/// Endpoints kept per Service beyond those that are listed; the oldest go first.
pub const MAX_REMEMBERED: usize = 4096;

/// Endpoints that are removed at once. A namespace can let its tens of thousands become old in one
/// moment.
pub const AT_ONCE: usize = 2_048;

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`]; of very
    /// many the first `AT_ONCE`.
    pub fn expire(&mut self, now: Duration) -> Changed {
        let is_old = |used: Moment| now.saturating_sub(used.into()) > MEMORY;
        let is_due = |all: &BTreeSet<(Moment, Endpoint, Target)>| {
            all.first().is_some_and(|one| is_old(one.0))
        };
        let due = self
            .remembered
            .iter()
            .filter(|(_, all)| is_due(all))
            .take(AT_ONCE);
        let due: Vec<ObjectName> = due.map(|(service, _)| service.clone()).collect();
        let mut changed = Changed::default();
        let mut left = AT_ONCE;
        for service in due {
            let old = self.remembered.get(&service).into_iter().flatten();
            let count = old
                .take_while(|(used, ..)| is_old(*used))
                .take(left)
                .count();
            left -= count;
            self.forget_oldest(&service, count, &mut changed);
        }
        changed
    }

    /// Removes the oldest endpoints of a Service that no slice lists, beyond [`MAX_REMEMBERED`].
    pub(crate) fn drop_surplus(&mut self, service: &ObjectName, changed: &mut Changed) {
        let remembered = self.remembered.get(service).map_or(0, BTreeSet::len);
        self.forget_oldest(service, remembered.saturating_sub(MAX_REMEMBERED), changed);
    }

    /// Removes so many endpoints of a Service that no slice lists.
    fn forget_oldest(&mut self, service: &ObjectName, count: usize, changed: &mut Changed) {
        let Some(known) = self.services.get_mut(service) else {
            return;
        };
        let Some(remembered) = self.remembered.get_mut(service) else {
            return;
        };
        let had_other_writer = known.foreign > 0;
        let mut places = Vec::with_capacity(count);
        while places.len() < count
            && let Some((_, endpoint, target)) = remembered.pop_first()
        {
            known.remove(&(endpoint, target));
            places.push((endpoint.ip, target));
        }
        let lost_other_writer = had_other_writer && known.foreign == 0;
        if remembered.is_empty() {
            self.remembered.remove(service);
        }
        if known.endpoints.is_empty() {
            self.forget_service(service);
        }
        self.uncount(service, &places);
        if !places.is_empty() {
            let endpoints = changed.endpoints_of(service);
            endpoints.places.append(&mut places);
            endpoints.doubts_selector |= lost_other_writer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::listing;
    use epguard_common::Addr;

    #[test]
    fn what_becomes_old_at_once_is_removed_a_part_at_a_time() {
        let mut index = EndpointIndex::default();
        let name = |service: u8| -> ObjectName { ObjectName::new("flood", service.to_string()) };
        for service in 0..4 {
            let ips = (0..1_000_u16).map(|number| {
                let [high, low] = number.to_be_bytes();
                Addr::v4([10, service, high, low])
            });
            index.set(
                Duration::ZERO,
                &name(service),
                Some(listing(&name(service), ips)),
            );
            index.set(Duration::ZERO, &name(service), None);
        }
        let mut removed = || {
            let changed = index.expire(MEMORY * 2);
            changed
                .endpoints
                .values()
                .map(|service| service.places.len())
                .sum::<usize>()
        };
        assert_eq!([removed(), removed(), removed()], [2_048, 1_952, 0]);
    }
}
