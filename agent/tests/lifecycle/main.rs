//! What stays in the kernel, what is taken over, what is removed: on network namespaces and a bpffs of each test's own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod agent;
mod chain;
mod detach;
mod maps;
mod node;
mod switch;
mod takeover;
mod traffic;
