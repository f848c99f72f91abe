//! What the state holds, for status, `why`, history and metrics.

mod pod_counts;
mod snapshot;
mod unproven;
mod view;

pub use pod_counts::{IpState, PodCounts, PodState};
pub use snapshot::{DenialView, EndpointView, PodView, ServiceView, TargetView, View};
pub use unproven::{PossibleHolder, UnprovenDeaths};

use super::State;

/// A state, read only: what it shows decides nothing.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a>(pub(in crate::state) &'a State);
