//! Stories in YAML, told on the real datapath with the real agent. `lab/SCENARIOS.md` documents the format.

pub(crate) mod agent;
pub(crate) mod bpftool;
mod cli;
pub(crate) mod cluster;
pub(crate) mod counters;
pub mod format;
mod life;
mod load;
mod matching;
mod names;
mod objects;
mod process;
pub(crate) mod serve;
mod tell;
mod traffic;
pub(crate) mod variant;
mod verdicts;
pub(crate) mod workdir;

pub use cli::{Args, run};
pub use load::{load, parse};
