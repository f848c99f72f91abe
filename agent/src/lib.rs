//! The agent as a library, so that the lab can run its parts without a cluster.

pub mod agent;
pub mod announce;
pub mod attachments;
pub mod breaker;
pub mod cli;
pub mod clock;
pub mod datapath;
pub mod dump;
pub mod events;
pub mod facts;
pub mod freshness;
pub mod lease;
pub mod maps;
pub mod metrics;
pub mod netlink;
pub mod plan;
pub mod report;
pub mod run;
pub mod state;
pub mod status;
pub mod telemetry;
pub mod trust;
pub mod watch;
