//! Which endpoints are proven stale, or why not.

pub(in crate::state) mod judge;
pub(in crate::state) mod own;

pub(in crate::state) use judge::denials_of;
pub use judge::{Denials, Proven};
pub use own::Own;
