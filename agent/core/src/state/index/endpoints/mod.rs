//! Endpoints by Service and IP, with the pods that their slices name.

pub(in crate::state) mod crowded;
pub(in crate::state) mod endpoint;
pub(in crate::state) mod endpoint_index;
pub(in crate::state) mod forgetting;
pub(in crate::state) mod left_out;
pub(in crate::state) mod named_targets;
pub(in crate::state) mod places;
pub(in crate::state) mod readiness;
pub(in crate::state) mod remembered;
pub(in crate::state) mod service_endpoints;
pub(in crate::state) mod slice_part;
pub(in crate::state) mod touched;

pub use endpoint::{Endpoint, Listing, Port, RECENTLY, Target};
pub use endpoint_index::{EndpointIndex, MAX_REMEMBERED, MEMORY};
pub use service_endpoints::Targets;
