//! Stories in YAML, told on the real datapath with the real agent. `lab/SCENARIOS.md` documents the format.

pub mod agent;
mod beside;
pub(crate) mod bpftool;
mod capture;
mod carrier;
mod cli;
pub mod cluster;
pub mod counters;
pub mod format;
mod life;
mod load;
mod matching;
mod names;
mod objects;
mod options;
pub mod process;
mod references;
pub(crate) mod serve;
pub mod stage;
mod tell;
mod traffic;
mod vacancy;
pub mod variant;
mod verdicts;
mod watched;
pub mod workdir;
mod writers;

pub use cli::{Args, run};
pub use load::{load, parse};
