//! The action for a denied packet, and the limits of answers.

use crate::PerReason;

/// How a denied packet is stopped.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Action {
    /// Nobody chose: in a denial what CONFIG says, in CONFIG drop.
    #[default]
    Unset = 0,
    /// Silently.
    Drop = 1,
    /// With an answer to the sender: TCP RST, or ICMP port unreachable.
    Reject = 2,
    /// A flow that opens goes to a live endpoint of the same Service instead; where there is none it is rejected.
    Redirect = 3,
    /// To another interface, unchanged, for somebody to look at ([`crate::Config::capture`]).
    Capture = 4,
}

impl Action {
    /// From what a map holds. Anything unknown is unset.
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            1 => Self::Drop,
            2 => Self::Reject,
            3 => Self::Redirect,
            4 => Self::Capture,
            _ => Self::Unset,
        }
    }

    /// This one, or the other where nobody chose.
    #[inline]
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match self {
            Self::Unset => other,
            chosen => chosen,
        }
    }

    /// As the command line writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "unset",
            Self::Drop => "drop",
            Self::Reject => "reject",
            Self::Redirect => "redirect",
            Self::Capture => "capture",
        }
    }
}

/// The action of each reason.
pub type ReasonActions = PerReason<Action>;

/// Answers a second; beyond them packets are dropped silently. All-zero answers nobody.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AnswerLimits {
    /// Packets aimed at one IP.
    pub per_suspect: u32,
    /// Packets that this node stops.
    pub per_node: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_in_a_denial_comes_before_the_one_in_config() {
        assert_eq!(Action::Drop.or(Action::Reject), Action::Drop);
        assert_eq!(Action::Unset.or(Action::Reject), Action::Reject);
        assert_eq!(Action::Unset.or(Action::Unset), Action::Unset);
    }

    #[test]
    fn numbers_that_are_no_action_choose_nothing() {
        let all = [
            Action::Unset,
            Action::Drop,
            Action::Reject,
            Action::Redirect,
            Action::Capture,
        ];
        for action in all {
            assert_eq!(Action::from_raw(action as u32), action);
        }
        for garbage in [5, 77, u32::MAX] {
            assert_eq!(Action::from_raw(garbage), Action::Unset);
        }
    }
}
