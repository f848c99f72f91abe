//! `kubectl epguard`: one view of the cluster. The same binary, under the name `kubectl-epguard`.
//!
//! ```text
//! scope (flags) -> agents (list of pods) -> exec of `epguard VERB -o json` in each, side by side -> asked
//!   asked -> the verb's own text about all nodes, or one document; missing nodes by cause; the worst node's exit code
//! ```

mod agents;
mod ask;
mod audit;
mod breaker;
mod cli;
mod complete;
mod decode;
mod document;
mod drops;
mod exec;
#[cfg(test)]
mod fuzz;
mod lines;
mod lint;
mod missing;
mod mode;
mod nodes;
mod output;
mod path;
mod places;
mod progress;
mod scope;
mod status;
mod sysdump;
mod version;
mod why;

pub use cli::{Plugin, Verb, is_plugin};
