//! The agent as a library, so that the lab can run its parts without a cluster.

pub mod cli;
pub mod facts;
pub mod netlink;
pub mod state;
pub mod status;
pub mod telemetry;
