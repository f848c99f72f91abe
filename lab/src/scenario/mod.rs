//! Stories in YAML, run on the real datapath with the real agent. `lab/SCENARIOS.md` documents the format.

pub mod agent;
mod answers;
mod apply;
mod balancer;
mod beside;
pub(crate) mod bpftool;
mod burst;
mod cli;
pub mod cluster;
mod counted;
pub mod counters;
pub mod format;
mod life;
mod load;
mod matching;
mod names;
mod objects;
mod options;
pub mod played;
mod present;
mod references;
mod refusals;
pub(crate) mod serve;
pub mod stage;
mod tell;
mod traffic;
pub mod variant;
mod verdicts;
pub mod workdir;
mod writers;

pub use cli::{Args, run};
pub use counted::Report;
pub use load::{load, parse};
pub use present::{Claim, Presenter};
pub use tell::present;
