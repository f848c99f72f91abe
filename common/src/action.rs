//! The action for a denied packet, and the limits of answers.

use crate::PerReason;

/// What is done with a denied packet.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Action {
    /// Not set: in a denial the action of CONFIG, in CONFIG drop.
    #[default]
    Unset = 0,
    /// Drop it silently.
    Drop = 1,
    /// Drop it, and send the sender a TCP RST or ICMP port unreachable.
    Reject = 2,
    /// Send a flow that opens to a live endpoint of the same Service; reject it where there is none.
    Redirect = 3,
    /// Send it unchanged to another interface, for analysis ([`crate::Config::capture`]).
    Capture = 4,
}

impl Action {
    /// Reads a number from a map. An unknown number is unset.
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

    /// This action, or the other one if this is unset.
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

/// Limits of answers a second; beyond them packets are dropped silently. Zero: no answers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AnswerLimits {
    /// To packets for one IP.
    pub per_suspect: u32,
    /// To all packets that this node stops.
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
