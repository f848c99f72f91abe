//! Slices come, change and go, and with them the endpoints that they list.

use super::slice_part::SlicePart;
use super::{EndpointIndex, Listing};
use crate::facts::{ObjectName, Slice};
use crate::state::index::changed::Changed;
use crate::state::index::quota::RETRIED;
use std::time::Duration;

impl EndpointIndex {
    /// Adds or replaces a slice; removes it with `None`.
    pub fn set(&mut self, now: Duration, name: &ObjectName, slice: Option<Slice>) -> Changed {
        let mut changed = Changed::default();
        self.replace(now, name, slice, &mut changed);
        changed
    }

    /// The same, and adds what that changes.
    pub(crate) fn replace(
        &mut self,
        now: Duration,
        name: &ObjectName,
        slice: Option<Slice>,
        changed: &mut Changed,
    ) {
        let slice = slice.filter(|slice| slice.service.is_some());
        let known = self.slices.get(name).map(Box::as_ref);
        if known == slice.as_ref() && !self.left_out.all.contains(name) {
            return;
        }
        let listed = self.take_out(name, changed);
        let before = listed.as_deref();
        let slice = slice.map(|slice| self.bounded(slice));
        let new = slice
            .as_ref()
            .and_then(|slice| SlicePart::missing_in(slice, before));
        let is_partial = slice.as_ref().is_some_and(|slice| slice.partial);
        let is_left_out = is_partial || new.as_ref().is_some_and(|new| !self.has_room(new));
        let after = if is_left_out { None } else { slice.as_ref() };
        // Before it is listed anew: what slices called a port before does not count.
        let gone = before.and_then(|before| SlicePart::missing_in(before, after));
        if let Some(gone) = &gone {
            self.unlist(now, gone, changed);
        }
        if let Some(new) = &new
            && !is_left_out
        {
            self.list(new, changed);
        }
        if let Some(gone) = &gone {
            self.drop_surplus(gone.service, changed);
        }
        if let Some(slice) = slice {
            if is_left_out {
                self.left_out.add(&slice.name, slice.service.clone(), []);
                if let Some(service) = &slice.service {
                    changed.endpoints_of(service).all = true;
                }
            }
            self.keep(slice);
        }
    }

    fn list(&mut self, part: &SlicePart<'_>, changed: &mut Changed) {
        let service = part.service;
        let endpoints = changed.endpoints_of(service);
        let foreign = part.slice.foreign;
        let targets = part.named().map(|(endpoint, shown, port)| {
            let add = move |listing: &mut Listing| listing.add(port.name, shown.ready, foreign);
            (endpoint, shown.target, add)
        });
        self.edit_all(service, targets);
        if foreign && part.endpoints.iter().any(|shown| shown.target.is_some()) {
            endpoints.doubts_selector = true;
        }
        for namespace in &part.slice.namespaces {
            endpoints.doubts_selector |= self.name_namespace(service, namespace);
        }
        endpoints
            .places
            .extend(part.endpoints.iter().map(|shown| (shown.ip, shown.target)));
    }

    fn unlist(&mut self, now: Duration, part: &SlicePart<'_>, changed: &mut Changed) {
        let targets = part.named().map(|(endpoint, shown, _)| {
            let take_away = move |listing: &mut Listing| listing.take_away(now, shown.ready);
            (endpoint, shown.target, take_away)
        });
        self.edit_all(part.service, targets);
        changed
            .endpoints_of(part.service)
            .places
            .extend(part.endpoints.iter().map(|shown| (shown.ip, shown.target)));
    }

    /// Takes in slices that were left out and have room by now, until they have as many endpoints
    /// as one slice may have. Looks at some of them each time.
    pub fn retry(&mut self, now: Duration, changed: &mut Changed) {
        let mut pairs = 0;
        for _ in 0..self.left_out.all.len().min(RETRIED) {
            if pairs >= Slice::MOST_PAIRS {
                break;
            }
            let Some(name) = self.left_out.take_turn(1).pop() else {
                break;
            };
            let Some(slice) = self.slices.get(&name).filter(|slice| !slice.partial) else {
                continue;
            };
            if self.room.admits(&name.namespace, slice.pairs()) {
                let slice = Slice::clone(slice);
                pairs += slice.pairs();
                self.replace(now, &name, Some(slice), changed);
            }
        }
    }
}
