//! One denial as the tables show it, and what it is made of.

use super::Draining;
use crate::facts::Service;
use crate::state::denials::{Denials, pending::Denied};
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use epguard_common::{Action, Denial, DenialKey, ServiceNumber};

/// What the tables are made of.
pub(in crate::state) struct Given<'a> {
    pub cluster: &'a ClusterIndex,
    pub denials: &'a Denials,
    pub draining: &'a Draining,
}

/// The key of a denial of the Service with this number.
pub(super) fn key(endpoint: &Endpoint, service: ServiceNumber) -> DenialKey {
    DenialKey::new(endpoint.ip, service, endpoint.port, endpoint.protocol.number())
}

pub(super) fn denial(denied: &Denied, action: Action) -> Denial {
    let proven = &denied.proven;
    Denial {
        dead_uid: proven.meant,
        owner_uid: proven.owner.unwrap_or_default(),
        boot_id: proven.boot_id,
        reason: proven.reason,
        uid_state: proven.state,
        mode: proven.mode,
        held: denied.pending.is_some().into(),
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
