//! Stories in YAML, run on the real datapath with the real agent. `lab/SCENARIOS.md` documents the
//! format.

pub mod agent;
mod balancer;
mod beside;
pub mod burst;
mod cli;
pub mod cluster;
pub mod entries;
mod failure;
pub mod format;
mod life;
mod names;
mod objects;
mod output;
pub mod stage;
mod tell;
mod traffic;
pub mod variant;
mod verdicts;

pub use cli::{Args, run};
pub use format::{load, parse};
pub use tell::{How, Presenter, tell};
