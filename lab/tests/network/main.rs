//! The lab's network, and the programs in it without an agent. As root, `cargo xtask test` runs
//! each module in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod intents;
mod net;
mod reject;
mod socket_lb;
