//! The real agent on a node of its own beside an API server. As root, `cargo xtask test` runs each
//! module in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod absurd_objects;
mod answered_early;
mod capabilities;
mod contradiction;
mod dashboard;
mod events;
mod flooded;
mod late_module;
mod metrics;
mod mode_policy;
mod operator;
mod rbac;
mod real_loop;
mod view_age;
mod world;
