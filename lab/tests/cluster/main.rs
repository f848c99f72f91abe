//! The real agent in a cluster with pods, traffic and a proxy. As root, `cargo xtask test` runs each module in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod audit;
mod commands;
mod demo;
mod links;
mod lives;
mod quickstart;
mod redirected;
mod stage;
