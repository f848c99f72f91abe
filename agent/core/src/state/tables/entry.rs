//! One denial as the tables show it, and what it is made of.

use super::Draining;
use crate::facts::{Name, Service};
use crate::state::confirmation::Breaker;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use crate::state::proof::{Denials, Proven, denials_of};
use epguard_common::{Action, Denial, DenialKey, ServiceNumber};

/// What the tables are made of.
pub(in crate::state) struct Given<'a> {
    pub cluster: &'a ClusterIndex,
    pub denials: &'a Denials,
    pub breaker: &'a Breaker,
    pub draining: &'a Draining,
}

impl Given<'_> {
    pub(super) fn denials_of(&self, name: &Name) -> impl Iterator<Item = (&(Name, Endpoint), &Proven)> {
        denials_of(self.denials, name)
    }
}

/// The key of a denial of the Service with this number.
pub(super) fn key(endpoint: &Endpoint, service: ServiceNumber) -> DenialKey {
    DenialKey::new(endpoint.ip, service, endpoint.port, endpoint.protocol.number())
}

pub(super) fn denial(proven: &Proven, held: bool, action: Action) -> Denial {
    Denial {
        dead_uid: proven.meant,
        owner_uid: proven.owner.unwrap_or_default(),
        boot_id: proven.boot_id,
        reason: proven.reason,
        uid_state: proven.state,
        mode: proven.mode,
        held: held.into(),
        action,
    }
}

/// The action of a denial: one that should redirect, and has nothing to redirect to, rejects.
pub(super) fn action(service: &Service, is_redirected: bool) -> Action {
    match service.on_denial.action {
        Action::Redirect if !is_redirected => Action::Reject,
        asked => asked,
    }
}
