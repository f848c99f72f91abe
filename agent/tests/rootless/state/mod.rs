//! Stories for the state, without an API server, a clock or a kernel: facts in, denials out.

mod assumptions;
mod bounds;
mod breaker;
mod claims;
mod crowded;
mod endpoint_index;
mod gaps;
mod half_applied;
mod lint;
mod nodes;
mod not_proven;
mod objects;
mod opinions;
mod orphan_ip;
mod proof;
mod quota;
mod redirected;
mod restore;
mod settled;
mod stand_ins;
mod successors;
mod touched;
pub mod world;
