//! Endpoints by Service and IP, with the pods that their slices name.

mod endpoint;
mod endpoint_index;
mod forgetting;
mod left_out;
mod lookups;
mod places;
mod service_endpoints;
mod slice_part;

pub use endpoint::{Endpoint, Listing, Port, RECENTLY, Target};
pub use endpoint_index::{EndpointIndex, Touched};
pub use forgetting::{MAX_REMEMBERED, MEMORY};
pub use service_endpoints::Targets;
