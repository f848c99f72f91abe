//! What the state holds, for status, `why`, history and metrics.

pub(in crate::state) mod names;
pub(in crate::state) mod pod_counts;
pub(in crate::state) mod reuse;
pub(in crate::state) mod snapshot;
pub(in crate::state) mod unproven;
pub(in crate::state) mod view;

pub use pod_counts::{IpState, PodCounts, PodState};
pub(in crate::state) use reuse::Reuse;
pub use snapshot::{DenialView, EndpointView, PodView, ServiceView, TargetView, View};
pub use unproven::{PossibleHolder, Unproven};
