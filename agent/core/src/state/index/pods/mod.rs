//! Pods by UID, and by the IPs that they claim or may hold.

mod pod_index;
mod pod_places;
mod possible_holder;
mod record;

pub use pod_index::{PodIndex, RestoredPod, ShownBy};
pub use record::{Kubelet, Record};
