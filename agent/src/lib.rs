//! The agent as a library, so that the lab can run its parts without a cluster.

#![expect(
    clippy::must_use_candidate,
    reason = "only this repository uses it, and most functions would have the attribute"
)]

pub mod cli;
pub mod commands;
pub mod daemon;
#[cfg(test)]
mod fuzz;
pub mod kernel;
pub mod node;
pub mod shared;

pub use epguard_client::watch;
