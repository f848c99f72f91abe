//! What the API and the node have shown: pods, endpoints, Services, Nodes and Namespaces.

pub(in crate::state) mod bound;
pub(in crate::state) mod cluster_index;
pub(in crate::state) mod compact;
pub(in crate::state) mod ended;
pub(in crate::state) mod endpoints;
pub(in crate::state) mod ipam;
pub(in crate::state) mod moment;
pub(in crate::state) mod namespaces;
pub(in crate::state) mod node_ranges;
pub(in crate::state) mod parts;
pub(in crate::state) mod plausible;
pub(in crate::state) mod pods;
pub(in crate::state) mod quota;
pub(in crate::state) mod ranges;
pub(in crate::state) mod settings;
pub(in crate::state) mod stale_index;
pub(in crate::state) mod vips;

pub use cluster_index::ClusterIndex;
pub(in crate::state) use compact::Spare;
pub use moment::Moment;
pub use ranges::Ranges;
pub use settings::{Ipam, Settings};
