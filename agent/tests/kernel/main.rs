//! The programs, the scanner and the process on a real kernel. As root, `cargo xtask test` runs each module in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod bad_input;
mod lifecycle;
mod neighbours;
mod programs;
