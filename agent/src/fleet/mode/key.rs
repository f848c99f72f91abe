//! Keys of the `ConfigMap` of modes.

use epguard_common::Reason;

/// A key of the `ConfigMap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `mode`.
    Mode,
    /// `canary-mode`.
    CanaryMode,
    /// The reason's name.
    Reason(Reason),
}

impl Key {
    /// The key that the flags mean.
    pub const fn of(canary: bool, reason: Option<Reason>) -> Self {
        match (canary, reason) {
            (true, _) => Self::CanaryMode,
            (false, Some(reason)) => Self::Reason(reason),
            (false, None) => Self::Mode,
        }
    }

    /// As the `ConfigMap` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::CanaryMode => "canary-mode",
            Self::Reason(reason) => reason.as_str(),
        }
    }
}
