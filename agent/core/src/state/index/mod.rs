//! What the API and the node have shown: pods, endpoints, Services, Nodes and Namespaces.

mod bound;
pub(in crate::state) mod cluster_index;
mod ended;
pub(in crate::state) mod endpoints;
mod ipam;
mod listed_nodes;
mod moment;
mod namespaces;
mod node_ranges;
mod parts;
mod plausible;
pub(in crate::state) mod pods;
pub(in crate::state) mod quota;
mod ranges;
mod settings;
mod stale_index;
mod unlisted;
mod vips;

pub use cluster_index::ClusterIndex;
pub use moment::Moment;
pub use ranges::Ranges;
pub use settings::{Ipam, Settings};
