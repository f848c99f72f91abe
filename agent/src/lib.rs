//! The agent as a library, so that the lab can run its parts without a cluster.

pub mod facts;
pub mod state;
pub mod watch;
