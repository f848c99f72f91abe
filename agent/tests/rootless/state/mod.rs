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
mod lint_advice;
mod lint_random;
mod lint_unknown;
mod nodes;
mod not_proven;
mod objects;
mod orphan_ip;
mod own;
mod proof;
mod quota;
mod redirected;
mod restore;
mod rollout;
mod second_lists;
mod settled;
mod touched;
mod vips;
mod waiting;
pub mod world;

pub use Reason::{DeadBackend, RetiredBackend, Reused};
pub use epguard_common::*;
pub use epguard_core::facts::*;
pub use epguard_core::state::View;
pub use epguard_core::state::*;
pub use objects::*;
pub use std::time::Duration;
pub use world::{FoundDenial, World, judge, settings};
