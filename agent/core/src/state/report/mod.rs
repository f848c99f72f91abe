//! What the state holds, for status, `why`, history and metrics.

mod pod_counts;
mod unproven;
mod view;

pub use pod_counts::{IpState, PodCounts, PodState};
pub use unproven::{PossibleHolder, UnprovenDeaths};
pub use view::{DenialView, EndpointView, PodView, ServiceView, TargetView, View};

use super::State;

/// A state, read only: what it shows decides nothing.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a>(pub(in crate::state) &'a State);
