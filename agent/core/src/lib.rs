//! The pure part of the agent: no client, no clock, no kernel.
#![forbid(unsafe_code)]

pub mod bucket;
pub mod counts;
pub mod facts;
pub mod freshness;
pub mod history;
pub mod plan;
pub mod sorted_map;
pub mod state;
