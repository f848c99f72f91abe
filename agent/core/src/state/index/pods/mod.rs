//! Pods by UID, and by the IPs that they claim or may hold.

mod claims;
mod pod_index;
mod pod_places;
mod possible_holder;
mod record;

pub use claims::{Claim, Claims};
pub use pod_index::PodIndex;
pub use record::Record;
