//! Which endpoints are proven stale, or why not.

pub(in crate::state) mod judge;
pub(in crate::state) mod own;

pub use judge::Proven;
pub use own::Own;
