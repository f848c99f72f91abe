//! Services with redirected flows: their packets go on carrying the intent, with or without a denial.

use super::slots::Given;
use super::{Slots, Tables};
use crate::facts::Name;
use crate::state::State;
use crate::state::dirty::Dirty;
use crate::state::index::ClusterIndex;
use epguard_common::{Slot, capacity};
use std::collections::BTreeSet;
use std::time::Duration;

impl State {
    /// Sets the slots of redirected flows that go on.
    pub fn set_redirected(&mut self, now: Duration, in_use: BTreeSet<Slot>) {
        if in_use == self.redirected {
            return;
        }
        self.redirected = in_use;
        let dirty = Dirty {
            vips: true,
            ..Dirty::default()
        };
        self.settle(now, dirty);
    }

    /// True if redirected flows of a known Service go on: then the view has to stay fresh for them.
    #[must_use]
    pub fn has_redirected_flows(&self) -> bool {
        !self.redirected_services().is_empty()
    }

    /// Services with redirected flows that go on.
    pub(in crate::state) fn redirected_services(&self) -> BTreeSet<Name> {
        let services = self
            .redirected
            .iter()
            .filter_map(|slot| self.slots.service(*slot));
        services.cloned().collect()
    }
}

impl Tables {
    /// Keeps the intent of Services that have no denial any more, as far as there is room.
    pub(in crate::state) fn keep_intent(
        &mut self,
        cluster: &ClusterIndex,
        slots: &mut Slots,
        now: Duration,
        redirected: &BTreeSet<Name>,
    ) {
        for name in redirected {
            let Some(service) = cluster.service(name) else {
                continue;
            };
            let vips: Vec<_> = cluster.unambiguous_vips(service).collect();
            if self.services.len() + vips.len() > capacity::SERVICES {
                continue;
            }
            if let Some(Given { slot, .. }) = slots.take(now, name) {
                self.services.extend(vips.into_iter().map(|vip| (vip, slot)));
            }
        }
    }
}
