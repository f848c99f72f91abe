//! Tests that need no root: stories, recordings, and `epguard lint` beside an API server.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod fleet;
mod fuzz;
mod lint;
mod scenarios;
mod why;
