//! What needs neither root nor a kernel. A module of `kernel` is right for a test that does.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod facts;
mod findings;
mod health;
mod incremental;
mod metrics_docs;
mod one_binary;
mod pages;
mod reference;
mod review;
mod state;
mod tables_docs;
