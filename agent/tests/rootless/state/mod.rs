//! Stories told to the state, without an API server, a clock or a kernel: facts in, denials out.

mod beliefs;
mod bounds;
mod breaker;
mod census;
mod claims;
mod crowded;
mod gaps;
mod inherit;
mod lint;
mod lives;
mod not_proven;
mod proof;
mod quota;
mod settled;
mod steering;
mod successors;
mod touched;
mod vacant;
pub mod world;
