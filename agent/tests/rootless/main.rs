//! What needs neither root nor a kernel. A module of `kernel` is right for a test that does.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod facts;
mod health;
mod incremental;
mod metrics_text;
mod one_binary;
mod pages;
mod review;
mod state;
