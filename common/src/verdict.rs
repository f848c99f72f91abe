//! The verdict on a packet.

use crate::{Outcome, Reason};

/// The decision about one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a verdict that is not turned into an action protects no pod"]
pub enum Verdict {
    /// Not a suspect; not counted.
    Clear,
    /// Passed and counted; `Outcome` names why.
    Pass(Reason, Outcome),
    /// Denied for this reason; `enforce` false: only reported.
    Deny {
        /// The proof that holds.
        reason: Reason,
        /// Whether the packet is stopped.
        enforce: bool,
    },
}

impl Verdict {
    /// How the packet is counted; `None` if it isn't.
    #[inline]
    pub const fn counted(self) -> Option<(Reason, Outcome)> {
        match self {
            Self::Clear => None,
            Self::Pass(reason, outcome) => Some((reason, outcome)),
            Self::Deny {
                reason,
                enforce: true,
            } => Some((reason, Outcome::Dropped)),
            Self::Deny {
                reason,
                enforce: false,
            } => Some((reason, Outcome::Observed)),
        }
    }
}
