//! The node agent: facts in, maps written, reports out.

pub mod agent;
mod allocator;
pub mod args;
pub mod attachments;
pub mod confirmation;
mod executable;
pub mod lease;
pub mod mode_policy;
pub mod report;
pub mod run;
pub mod telemetry;
mod thread;
pub mod translators;
