//! Which object a Node is.

use std::num::NonZeroU32;

/// One Node object; another one of the same name has another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incarnation(NonZeroU32);

impl Default for Incarnation {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

impl Incarnation {
    /// The number after this one.
    pub fn successor(self) -> Self {
        Self(self.0.checked_add(1).unwrap_or(NonZeroU32::MIN))
    }
}
