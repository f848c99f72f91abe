//! The memory of endpoints that no slice lists any more: how long it keeps them, and how many.

use super::{Endpoint, EndpointIndex, Target, Touched};
use crate::counts::ungroup;
use crate::facts::Name;
use crate::state::index::Moment;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long an endpoint is kept after the last slice that listed it and the last packet to it.
pub const MEMORY: Duration = Duration::from_mins(10);

/// Endpoints kept per Service beyond those that are listed; the oldest go first.
pub const MAX_REMEMBERED: usize = 4096;

impl EndpointIndex {
    /// Removes endpoints that no slice has listed and no packet has hit for [`MEMORY`].
    pub fn expire(&mut self, now: Duration) -> Touched {
        let is_old = |used: Moment| now.saturating_sub(used.into()) > MEMORY;
        let is_due =
            |all: &BTreeSet<(Moment, Endpoint, Target)>| all.first().is_some_and(|one| is_old(one.0));
        let due = self.remembered.iter().filter(|(_, all)| is_due(all));
        let due: Vec<Name> = due.map(|(service, _)| service.clone()).collect();
        let mut touched = Touched::default();
        for service in due {
            let gone = self.remembered.get(&service).into_iter().flatten();
            let gone = gone.take_while(|(used, ..)| is_old(*used));
            self.forget(&service, gone.copied().collect(), &mut touched);
        }
        touched
    }

    /// Removes the oldest endpoints of a Service that no slice lists, beyond [`MAX_REMEMBERED`].
    pub(crate) fn drop_surplus(&mut self, service: &Name, touched: &mut Touched) {
        if let Some(all) = self.remembered.get(service) {
            let gone = all.iter().take(all.len().saturating_sub(MAX_REMEMBERED));
            self.forget(service, gone.copied().collect(), touched);
        }
    }

    fn forget(&mut self, service: &Name, gone: Vec<(Moment, Endpoint, Target)>, touched: &mut Touched) {
        let Some(known) = self.services.get_mut(service) else { return };
        for (_, endpoint, target) in &gone {
            known.remove(&(*endpoint, *target));
        }
        if known.endpoints.is_empty() {
            self.forget_service(service);
        }
        for one in gone {
            ungroup(&mut self.remembered, service, &one);
            let (_, Endpoint { ip, .. }, target) = one;
            self.uncount(service, ip, target);
            touched.add(service, ip, target);
        }
    }
}
