//! A value for each reason, as CONFIG holds it.

use crate::Reason;

/// Something for each reason, in the order of the reasons' numbers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "named after the reasons")]
pub struct PerReason<T> {
    pub dead_backend: T,
    pub reused: T,
    pub retired_backend: T,
    pub terminated: T,
}

impl<T> PerReason<T> {
    /// The same of something else.
    #[must_use]
    pub fn map<U>(self, with: impl Fn(T) -> U) -> PerReason<U> {
        PerReason {
            dead_backend: with(self.dead_backend),
            reused: with(self.reused),
            retired_backend: with(self.retired_backend),
            terminated: with(self.terminated),
        }
    }

    /// That of a reason.
    #[must_use]
    pub fn of(&mut self, reason: Reason) -> Option<&mut T> {
        match reason {
            Reason::Nothing => None,
            Reason::DeadBackend => Some(&mut self.dead_backend),
            Reason::Reused => Some(&mut self.reused),
            Reason::RetiredBackend => Some(&mut self.retired_backend),
            Reason::Terminated => Some(&mut self.terminated),
        }
    }
}
