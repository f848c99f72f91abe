//! The node agent: facts in, maps written, reports out.

pub mod agent;
pub mod args;
pub mod attachments;
pub mod breaker;
pub mod demotion;
pub mod lease;
pub mod mode_policy;
pub mod node_thread;
pub mod node_work;
pub mod report;
pub mod run;
mod spans;
pub mod takeover;
pub mod telemetry;
pub mod translators;
pub mod turn;
