//! A pod that the API shows or has shown, and what is proven of it.

use super::claims::Claims;
use crate::facts::Pod;
use crate::state::index::Moment;
use epguard_common::{Addr, UidState};

/// A pod that the API shows or has shown.
#[derive(Debug, Clone, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, and there is one record for each pod of the cluster"
)]
pub struct Record {
    /// The last object seen.
    pub pod: Pod,
    /// What is proven of it.
    pub uid_state: UidState,
    /// Whether the API shows the object now.
    pub present: bool,
    /// Every IP it showed, with the order in which claims were first seen. Claims of one list share a number, since a
    /// list does not show which was first.
    pub claims: Claims,
    /// True if one list and nothing else showed its end: the pod's next object may take that back, even a death.
    pub unconfirmed: bool,
    /// True if only narrow lists have confirmed its end since: what else the one list of everything lacked is unknown.
    pub narrowly: bool,
    /// When a watch showed its death; 0 if a list did, or an earlier process: it may have died any time before.
    pub died: Moment,
    /// True if the IPs that it shows are those of its sandbox.
    pub settled: bool,
    /// Since when it may hold an IP that it doesn't show.
    pub possible_holder_since: Option<Moment>,
}

impl Record {
    /// True if it holds the IP according to the API.
    #[must_use]
    pub fn claims_now(&self, ip: Addr) -> bool {
        self.present && !self.pod.host_network && self.pod.addresses().any(|own| own == ip)
    }

    /// A live pod that the API shows.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.present && self.uid_state == UidState::Live
    }
}
