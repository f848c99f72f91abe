//! Stories in YAML, told on the real datapath with the real agent. `lab/SCENARIOS.md` documents the format.

mod agent;
mod bpftool;
mod cli;
mod cluster;
mod counters;
pub mod format;
mod life;
mod load;
mod matching;
mod names;
mod objects;
mod process;
mod serve;
mod tell;
mod traffic;
mod variant;
mod verdicts;
mod workdir;

pub use cli::{Args, run};
pub use load::{load, parse};
