//! Endpoints by Service and IP, with the pods that their slices name.

mod endpoint;
mod endpoint_index;
mod lookups;
mod memory;
mod places;
mod room;
mod slice_part;
mod slices;

pub use endpoint::{Endpoint, Listing, Port, Target, Targets};
pub use endpoint_index::EndpointIndex;
