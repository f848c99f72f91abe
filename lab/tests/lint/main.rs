//! `epguard lint`: over the recordings of a real cluster, and as a process against the embedded API server. No root.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod process;
mod traces;
