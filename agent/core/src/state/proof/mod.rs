//! Which endpoints are proven stale, or why not.

pub(in crate::state) mod backends;
pub(in crate::state) mod judge;

pub use judge::{Denials, Proven};
