//! The endpoints that no slice lists any more, in the order of their last use.

use super::{Endpoint, Target};
use crate::facts::Name;
use crate::state::index::moment::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long an endpoint is kept after the last slice that listed it and the last packet to it.
pub const MEMORY: Duration = Duration::from_mins(10);

/// Endpoints kept per Service beyond those that are listed; the oldest go first.
pub const MAX_REMEMBERED: usize = 4096;

/// The endpoints that no slice lists now, by Service.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Remembered(BTreeMap<Name, Absent>);

/// Those of one Service, with the time when they were last used. It may be earlier than the truth, never later.
#[derive(Debug, Clone, Default)]
struct Absent {
    used: BTreeMap<(Endpoint, Target), Moment>,
    oldest: BTreeSet<(Moment, Endpoint, Target)>,
}

impl Remembered {
    /// Adds an endpoint, or sets when it was last used.
    pub(in crate::state) fn add(&mut self, service: &Name, now: Moment, endpoint: Endpoint, target: Target) {
        if !self.0.contains_key(service) {
            self.0.insert(service.clone(), Absent::default());
        }
        if let Some(absent) = self.0.get_mut(service) {
            absent.set(now, endpoint, target);
        }
    }

    pub(in crate::state) fn remove(&mut self, service: &Name, endpoint: Endpoint, target: Target) {
        if let Some(absent) = self.0.get_mut(service) {
            absent.remove(endpoint, target);
            if absent.used.is_empty() {
                self.0.remove(service);
            }
        }
    }

    /// How many there are of a Service.
    pub(in crate::state) fn count(&self, service: &Name) -> usize {
        self.0.get(service).map_or(0, |absent| absent.used.len())
    }

    /// The one of a Service that was used before all others.
    pub(in crate::state) fn oldest(&self, service: &Name) -> Option<(Moment, Endpoint, Target)> {
        self.0.get(service)?.oldest.first().copied()
    }

    /// The Services whose oldest one is old.
    pub(in crate::state) fn due(&self, is_old: impl Fn(Moment) -> bool) -> Vec<Name> {
        let oldest = |absent: &Absent| absent.oldest.first().map(|(used, ..)| *used);
        let due = self.0.iter().filter(|(_, absent)| oldest(absent).is_some_and(&is_old));
        due.map(|(service, _)| service.clone()).collect()
    }
}

impl Absent {
    fn set(&mut self, used: Moment, endpoint: Endpoint, target: Target) {
        self.remove(endpoint, target);
        self.used.insert((endpoint, target), used);
        self.oldest.insert((used, endpoint, target));
    }

    fn remove(&mut self, endpoint: Endpoint, target: Target) {
        if let Some(used) = self.used.remove(&(endpoint, target)) {
            self.oldest.remove(&(used, endpoint, target));
        }
    }
}
