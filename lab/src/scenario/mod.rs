//! Stories in YAML, told on the real datapath with the real agent. `lab/SCENARIOS.md` documents the format.

pub mod format;
mod load;

pub use load::{load, parse};
