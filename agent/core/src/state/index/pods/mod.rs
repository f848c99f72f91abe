//! Pods by UID, and by the IPs that they claim or may hold.

pub(in crate::state) mod claims;
pub(in crate::state) mod pod_index;
pub(in crate::state) mod pod_places;
pub(in crate::state) mod record;

pub use claims::{Claim, Claims};
pub use pod_index::PodIndex;
pub use record::Record;
