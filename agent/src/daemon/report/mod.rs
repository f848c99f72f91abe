//! What the agent reports: Events, log lines, counts for `epguard drops`, metrics.

pub mod denial_log;
pub mod kept_file;
pub mod kube_events;
pub mod metrics;
mod pod_names;
pub mod ring_buffer;
pub mod tally;

pub use pod_names::Names;
