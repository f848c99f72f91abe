//! What the state holds, for status, `why`, history and metrics. It decides nothing.

mod pod_counts;
mod unproven;
mod view;

pub use pod_counts::{IpState, PodCounts, PodState};
pub use unproven::{PossibleHolder, UnprovenDeaths};
pub use view::{DenialView, EndpointView, PodView, ServiceView, TargetView, View};
