//! Tests that need no root: stories, recordings, `epguard lint` and the Helm chart beside an API
//! server.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod fleet;
mod fuzz;
mod helm;
mod lint;
mod scenarios;
mod why;
