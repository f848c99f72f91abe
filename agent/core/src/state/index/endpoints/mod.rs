//! Endpoints by Service and IP, with the pods that their slices name.

mod crowded;
mod endpoint;
mod endpoint_index;
mod forgetting;
mod left_out;
mod named_targets;
mod places;
mod port_names;
mod readiness;
mod remembered;
mod service_endpoints;
mod slice_part;
pub(in crate::state) mod touched;

pub use endpoint::{Endpoint, Listing, Port, RECENTLY, Target};
pub use endpoint_index::{EndpointIndex, MAX_REMEMBERED, MEMORY};
pub use service_endpoints::Targets;
