//! Replays recordings of a real cluster and judges every denial at every instant.
//!
//! `recording` reads a folder into instants; `world` gathers the raw objects that its watches have
//! shown; `oracle` computes, by brute force, the denials that those objects prove; `truth` has the
//! pods that really held an address, by the node's records; `agent` is the state machine under
//! test; `judge` compares, and joins its verdicts.
//!
//! Nothing here uses the agent's own reading of the API, except the adapter for its state machine.

pub mod agent;
pub mod cli;
pub mod judge;
pub mod oracle;
mod pod;
pub mod recording;
pub mod truth;
pub mod world;
