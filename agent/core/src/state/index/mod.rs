//! What the API and the node have shown: pods, endpoints, Services, Nodes and Namespaces.

mod addresses;
pub(in crate::state) mod cluster_index;
pub(in crate::state) mod endpoints;
mod moment;
mod namespaces;
mod own_range;
pub(in crate::state) mod pods;
pub(in crate::state) mod quota;
mod settings;
mod stale_index;
mod vips;

pub use cluster_index::ClusterIndex;
pub use moment::Moment;
pub use settings::{Ipam, Ranges, Settings};
