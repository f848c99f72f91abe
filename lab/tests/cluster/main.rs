//! The real agent in a cluster with pods, traffic and a proxy. As root, `cargo xtask test` runs
//! each module in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod audit;
mod check;
mod commands;
mod demo;
mod e2e;
mod links;
mod lives;
#[allow(dead_code, reason = "xtask uses the rest")]
#[path = "../../../xtask/src/pages/markdown.rs"]
mod markdown;
mod node_b;
mod quickstart;
mod redirected;
mod stage;
