//! The agent as a library, so that the lab can run its parts without a cluster.

pub mod cli;
pub mod commands;
pub mod daemon;
pub mod fleet;
#[cfg(test)]
mod fuzz;
pub mod kernel;
pub mod node;
pub mod shared;
pub mod watch;
