//! What the state holds, for status, `why`, history and metrics.

mod names;
mod pod_counts;
mod snapshot;
mod unproven;
mod view;

pub use pod_counts::{IpState, PodCounts, PodState};
pub use snapshot::{DenialView, EndpointView, PodView, ServiceView, TargetView, View};
pub use unproven::{PossibleHolder, UnprovenDeaths};
