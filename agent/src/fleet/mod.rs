//! `kubectl epguard`: one view of the cluster. The same binary, under the name `kubectl-epguard`.
//!
//! ```text
//! scope (flags) -> agents (list of pods) -> exec of `epguard VERB -o json` in each, side by side -> ask
//!   ask -> the verb's table of all nodes, or one document; missing nodes by cause; the worst node's exit code
//! ```

mod agents;
mod ask;
mod audit;
mod cli;
mod drops;
mod exec;
#[cfg(test)]
mod fuzz;
mod mode;
mod modes;
mod nodes;
mod scope;
mod status;
mod sysdump;
mod why;

pub use cli::{Plugin, Verb, is_plugin};
