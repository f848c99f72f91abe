//! Endpoints by Service and IP, with the pods that their slices name.

mod endpoint;
mod endpoint_index;
mod lookups;
mod memory;
mod places;
mod service_endpoints;
mod slice_part;

pub use endpoint::{Endpoint, Listing, Port, RECENTLY, Target};
pub use endpoint_index::{EndpointIndex, Touched};
pub use memory::{MAX_REMEMBERED, MEMORY};
pub use service_endpoints::Targets;
